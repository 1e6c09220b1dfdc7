#include "pager/loop/bounce_buffers.h"

#include <algorithm>
#include <utility>

#include "pager/base/own_limits.h"
#include "pager/base/system_calls.h"

namespace weightpager {

Status BounceBuffers::open(uint64_t chunk_bytes) {
  if (memory_.length_bytes() > 0) return {};
  buffer_bytes_ = chunk_bytes + margin_bytes;
  auto memory =
      AnonymousMemory::make(count * buffer_bytes_, "buffers of reads", address_limit_hint());
  if (!memory) return forward_error(std::move(memory));
  memory_ = std::move(*memory);
  kernel::keep_to_process(memory_.at(0), memory_.length_bytes());
  return {};
}

std::byte* BounceBuffers::take() {
  const auto free = std::find(is_taken_.begin(), is_taken_.end(), false);
  if (free == is_taken_.end()) return nullptr;
  *free = true;
  return memory_.at(static_cast<uint64_t>(free - is_taken_.begin()) * buffer_bytes_);
}

void BounceBuffers::give(const std::byte* within) {
  is_taken_[static_cast<uint64_t>(within - memory_.at(0)) / buffer_bytes_] = false;
}

uint64_t BounceBuffers::offset_of(const std::byte* within) const {
  return static_cast<uint64_t>(within - memory_.at(0)) % buffer_bytes_;
}

}  // namespace weightpager
