// dlopen, caught for the sake of one flag. A library that is opened with RTLD_DEEPBIND finds the C
// library's malloc and read before the interposer's: its memory is not served, and if it frees a
// block that another library got, the C library ends the process. That is told when it happens.
//
// dlopen sees by its return address who calls it, because a library of the caller's folder is found
// by the caller's RUNPATH. So the interposer's function is no caller: it makes its note, and jumps.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>

#include <string>
#include <string_view>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/control/plugin.h"
#include "pager/preload/error_kept.h"
#include "pager/preload/session.h"
#include "pager/preload/spilled_blocks.h"
#include "pager/telemetry/marks.h"

namespace {

using OpenLibrary = void*(const char*, int);

void note_library(const char* path, int flags) {
  namespace preload = weightpager::preload;
  if (path == nullptr || (flags & RTLD_DEEPBIND) == 0 || !preload::is_active()) return;
  // The pager's own is opened so on purpose.
  if (std::string_view(path).ends_with(weightpager::control::plugin_file)) return;
  const bool is_spilling = preload::spilled_bytes_min.load() != SIZE_MAX;
  // Where nobody asked for spilling, it is not worth the risk.
  if (preload::is_spilling_for_readers()) preload::end_spilling_for_readers();
  if (!is_spilling || (preload::is_spilling_for_readers() && !preload::has_given_blocks())) return;
  const preload::ErrorKept kept;
  weightpager::telemetry::leave_mark(weightpager::telemetry::MarkKind::deep_bound, path);
  weightpager::notice(
      std::string(path) +
      ": is opened with RTLD_DEEPBIND: what it allocates and reads is not served, and "
      "if it frees memory of other libraries the engine ends. With --no-spill it may");
}

}  // namespace

/// Makes the note, and returns the next library's dlopen.
extern "C" __attribute__((visibility("hidden"), used)) OpenLibrary* weightpager_note_dlopen(
    const char* path, int flags) noexcept {
  static OpenLibrary* const next = reinterpret_cast<OpenLibrary*>(dlsym(RTLD_NEXT, "dlopen"));
  WP_ASSERT(next != nullptr);
  note_library(path, flags);
  return next;
}

extern "C" __attribute__((visibility("default"), naked)) void* dlopen(const char* /*path*/,
                                                                      int /*flags*/) noexcept {
  asm("endbr64\n\t"
      "push %rdi\n\t"
      "push %rsi\n\t"
      "sub $8, %rsp\n\t"
      "call weightpager_note_dlopen\n\t"
      "add $8, %rsp\n\t"
      "pop %rsi\n\t"
      "pop %rdi\n\t"
      "jmp *%rax");
}

#endif
