#include "pager/loop/bounce_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/own_limits.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager {

BounceBuffers::~BounceBuffers() {
  if (memory_ != nullptr) kernel::munmap(memory_, count * buffer_bytes_);
}

Status BounceBuffers::open(uint64_t chunk_bytes) {
  if (memory_ != nullptr) return {};
  buffer_bytes_ = chunk_bytes + margin_bytes;
  void* const memory = kernel::mmap(nullptr, count * buffer_bytes_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    return fail("no memory for " + format_size(count * buffer_bytes_) +
                    " of buffers: " + std::strerror(error),
                address_limit_hint(), error);
  }
  memory_ = static_cast<std::byte*>(memory);
  kernel::keep_to_process(memory_, count * buffer_bytes_);
  return {};
}

std::byte* BounceBuffers::take() {
  const auto free = std::find(is_taken_.begin(), is_taken_.end(), false);
  if (free == is_taken_.end()) return nullptr;
  *free = true;
  return memory_ + static_cast<uint64_t>(free - is_taken_.begin()) * buffer_bytes_;
}

void BounceBuffers::give(const std::byte* within) {
  is_taken_[static_cast<uint64_t>(within - memory_) / buffer_bytes_] = false;
}

uint64_t BounceBuffers::offset_of(const std::byte* within) const {
  return static_cast<uint64_t>(within - memory_) % buffer_bytes_;
}

}  // namespace weightpager
