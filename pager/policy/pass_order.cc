#include "pager/policy/pass_order.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::policy {

void PassOrder::reset(uint32_t chunks) {
  chunks_.clear();
  pace_.clear();
  positions_.assign(chunks, nowhere);
}

void PassOrder::install(std::vector<ChunkId> order) {
  chunks_ = std::move(order);
  pace_.clear();
  index_positions();
}

void PassOrder::erase_if(const std::function<bool(ChunkId)>& is_gone) {
  uint32_t left = 0;
  for (uint32_t position = 0; position < size(); ++position) {
    if (is_gone(chunks_[position])) continue;
    chunks_[left] = chunks_[position];
    if (!pace_.empty()) pace_[left] = pace_[position];
    ++left;
  }
  chunks_.resize(left);
  if (!pace_.empty()) pace_.resize(left);
  index_positions();
}

void PassOrder::set_pace(std::vector<float> pace) {
  WP_ASSERT(pace.size() == chunks_.size());
  pace_ = std::move(pace);
}

void PassOrder::index_positions() {
  std::fill(positions_.begin(), positions_.end(), nowhere);
  for (uint32_t position = 0; position < size(); ++position) {
    positions_[chunks_[position]] = position;
  }
}

}  // namespace weightpager::policy
