// See pinned_memory.h.
#include "runtime/pipeline/pinned_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "pager/base/units.h"

namespace weightpager::pipeline {

Result<PinnedMemory> PinnedMemory::make(uint64_t length_bytes) {
  PinnedMemory memory;
  if (length_bytes == 0) return memory;
  void* const address =
      mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const int error_number = errno;
    return fail(fmt::format("no memory to keep {} of weights: {}", format_size(length_bytes),
                            std::strerror(error_number)),
                "choose a smaller --window, or raise the memory limit", error_number);
  }
  memory.address_ = static_cast<std::byte*>(address);
  memory.length_bytes_ = length_bytes;
  madvise(address, length_bytes, MADV_HUGEPAGE);
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (address_ != nullptr) munmap(address_, length_bytes_);
}

}  // namespace weightpager::pipeline
