// Spilled memory that stays in memory: it is the kernel's anonymous memory, and files are read at
// once.
#include "pager/preload/spilled_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/system_calls.h"

namespace weightpager::preload {

std::byte* add_spilled_memory(uint64_t length_bytes) {
  const uint64_t reserved_bytes = length_bytes + spilled_chunk_bytes;
  void* const memory = kernel::mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = round_up(begin, spilled_chunk_bytes);
  if (aligned > begin) kernel::munmap(memory, aligned - begin);
  kernel::munmap(reinterpret_cast<void*>(aligned + length_bytes),
                 begin + reserved_bytes - (aligned + length_bytes));
  return reinterpret_cast<std::byte*>(aligned);
}

void forget_spilled_memory(std::byte* begin, uint64_t length_bytes) {
  kernel::madvise(begin, length_bytes, MADV_DONTNEED);
}

Status note_lazy_read(int fd, uint64_t file_offset_bytes, std::byte* to, uint64_t length_bytes) {
  for (uint64_t done = 0; done < length_bytes;) {
    const ssize_t got = kernel::pread(fd, to + done, length_bytes - done,
                                      static_cast<off_t>(file_offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(got < 0 ? std::strerror(errno) : "end of file", "", got < 0 ? errno : 0);
    done += static_cast<uint64_t>(got);
  }
  return {};
}

}  // namespace weightpager::preload
