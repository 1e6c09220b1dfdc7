// Engine profile for ggml (llama.cpp and programs that are built on it): keeps weights where they
// are mapped.
//
// If ggml's CPU backend has a faster layout for a type ("repack", AMX), llama.cpp copies every
// weight of that type out of the mapping at load, into memory that no pager can reach. It asks the
// backend for these layouts by the name "ggml_backend_dev_get_extra_bufts". If the answer is that
// there is no such function, it computes on the mapped weights, with the same results. Builds that
// link ggml statically are told by LLAMA_ARG_REPACK=0 instead (session.cc). `--no-profile` turns
// both off.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "pager/preload/session.h"

extern "C" __attribute__((visibility("default"))) void* ggml_backend_reg_get_proc_address(
    void* registry, const char* name) noexcept;

namespace {

using GetProcAddress = void* (*)(void* registry, const char* name);

constexpr const char* symbol = "ggml_backend_reg_get_proc_address";

// ggml may be loaded with RTLD_LOCAL, where RTLD_NEXT does not find it: ask each loaded library in
// turn.
int look_in_library(dl_phdr_info* library, size_t, void* found) {
  if (library->dlpi_name == nullptr || library->dlpi_name[0] == '\0') return 0;
  void* handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return 0;
  void* address = dlsym(handle, symbol);
  dlclose(handle);
  if (address == nullptr ||
      address == reinterpret_cast<void*>(&ggml_backend_reg_get_proc_address)) {
    return 0;
  }
  *static_cast<void**>(found) = address;
  return 1;
}

GetProcAddress real_function() {
  static std::atomic<GetProcAddress> known{nullptr};
  GetProcAddress function = known.load();
  if (function != nullptr) return function;
  void* found = nullptr;
  dl_iterate_phdr(look_in_library, &found);
  function = reinterpret_cast<GetProcAddress>(found);
  known.store(function);
  return function;
}

}  // namespace

void* ggml_backend_reg_get_proc_address(void* registry, const char* name) noexcept {
  if (weightpager::preload::wants_profiles() && name != nullptr &&
      std::strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) {
    weightpager::preload::note_profile("ggml: weights stay mapped (no repack, no AMX copies)");
    return nullptr;
  }
  const GetProcAddress function = real_function();
  return function == nullptr ? nullptr : function(registry, name);
}
