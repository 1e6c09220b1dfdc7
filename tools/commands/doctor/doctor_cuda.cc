// Asks the CUDA driver about its devices. The driver is loaded if it is there, and never linked, so
// that the same weightpager works on machines with and without it. The few declarations that are
// needed here are those of the driver's documented binary interface.
#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <cstddef>

#include "tools/commands/doctor/doctor_facts.h"

namespace weightpager::tools {
namespace {

// Numbers of CUdevice_attribute. There are two for stream memory operations, from the interfaces
// before and after CUDA 12; either one suffices.
constexpr int can_map_host_memory = 19;
constexpr int unified_addressing = 41;
constexpr int pageable_memory_access = 88;
constexpr int stream_memory_operations_v1 = 92;
constexpr int stream_memory_operations_64_bit = 122;

class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  // The library is never unloaded, because it has started threads.
  bool is_there() const { return library_ != nullptr; }

  /// Returns 0 or the driver's error; CUDA_ERROR_NOT_FOUND if the driver lacks the function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    constexpr int not_found = 500;
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr ? function(arguments...) : not_found;
  }

  std::string error_name(int error) const {
    const char* name = nullptr;
    if (call("cuGetErrorName", error, &name) != 0 || name == nullptr) name = "error";
    return fmt::format("{} ({})", name, error);
  }

  bool has(int device, int attribute) const {
    int value = 0;
    return call("cuDeviceGetAttribute", &value, attribute, device) == 0 && value != 0;
  }

 private:
  void* library_;
};

CudaDevice describe(const Driver& driver, int device) {
  CudaDevice facts;
  std::array<char, 256> name{};
  driver.call("cuDeviceGetName", name.data(), static_cast<int>(name.size() - 1), device);
  facts.name = name.data();
  size_t memory_bytes = 0;
  driver.call("cuDeviceTotalMem_v2", &memory_bytes, device);
  facts.memory_bytes = memory_bytes;
  facts.has_unified_addressing = driver.has(device, unified_addressing);
  facts.has_pageable_memory_access = driver.has(device, pageable_memory_access);
  facts.can_map_host_memory = driver.has(device, can_map_host_memory);
  facts.can_use_stream_memory_operations = driver.has(device, stream_memory_operations_v1) ||
                                           driver.has(device, stream_memory_operations_64_bit);
  return facts;
}

}  // namespace

CudaFacts collect_cuda_facts() {
  CudaFacts facts;
  const Driver driver;
  facts.has_driver = driver.is_there();
  if (!facts.has_driver) return facts;
  int count = 0;
  int error = driver.call("cuInit", 0u);
  if (error == 0) error = driver.call("cuDeviceGetCount", &count);
  if (error != 0) facts.problem = driver.error_name(error);
  for (int ordinal = 0; ordinal < count; ordinal++) {
    int device = 0;
    if (driver.call("cuDeviceGet", &device, ordinal) == 0) {
      facts.devices.push_back(describe(driver, device));
    }
  }
  return facts;
}

}  // namespace weightpager::tools
