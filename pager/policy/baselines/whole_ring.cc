#include "pager/policy/baselines/whole_ring.h"

#include <algorithm>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

// Threads of one matrix multiplication work some MiB apart.
constexpr uint64_t behind_bytes = 8 * MiB;
constexpr uint32_t tripwires = 8;

}  // namespace

void WholeRing::use_order() {
  const uint32_t window = table_.resident_max();
  behind_ = std::min(chunks_in(behind_bytes), window / 8);
  length_ = window > behind_ + 2 ? window - behind_ - 2 : 1;
  has_cursor_ = false;
  candidate_ = nowhere;
}

uint32_t WholeRing::distance_ahead(uint32_t position) const {
  const auto here = static_cast<uint32_t>(cursor_ % order_size());
  return position >= here ? position - here : position + order_size() - here;
}

void WholeRing::touched(ChunkId chunk) {
  PolicyBase::touched(chunk);
  const uint32_t at = position(chunk);
  if (at == nowhere) return;
  if (!has_cursor_) return go_to(at);
  const uint32_t ahead = distance_ahead(at);
  if (order_size() - ahead <= behind_) return;
  if (ahead <= length_) {
    cursor_ += ahead;
    frontier_ = std::max(frontier_, cursor_);
    return;
  }
  // The touch is far from where the engine should be: it is a stray, unless the next touch goes on
  // from there.
  const bool is_confirmed = candidate_ != nowhere && at > candidate_ && at - candidate_ <= length_;
  candidate_ = at;
  if (is_confirmed) go_to(at);
}

void WholeRing::go_to(uint32_t position) {
  has_cursor_ = true;
  candidate_ = nowhere;
  cursor_ = frontier_ = order_size() + position;
}

bool WholeRing::arrived(ChunkId chunk) {
  if (position(chunk) == nowhere) return true;
  if (++since_tripwire_ < std::max(length_ / tripwires, 1u)) return true;
  since_tripwire_ = 0;
  return false;
}

ChunkId WholeRing::next_ahead() {
  if (!has_cursor_) return window::no_chunk;
  const uint64_t limit = cursor_ + std::min(length_, order_size());
  for (; frontier_ < limit; ++frontier_) {
    const ChunkId chunk = order().cyclic[frontier_ % order_size()];
    if (table_.state(chunk) == ChunkState::absent) return chunk;
  }
  return window::no_chunk;
}

bool WholeRing::may_go(ChunkId chunk) const {
  const uint32_t at = position(chunk);
  if (!has_cursor_ || at == nowhere) return true;
  const uint32_t ahead = distance_ahead(at);
  return ahead >= frontier_ - cursor_ && order_size() - ahead > behind_;
}

}  // namespace weightpager::policy
