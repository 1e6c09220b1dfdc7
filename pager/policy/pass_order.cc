#include "pager/policy/pass_order.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::policy {

void PassOrder::reset(uint32_t chunks) {
  chunks_.clear();
  doubts_.clear();
  next_visits_.clear();
  pace_.clear();
  chunk_count_ = 0;
  positions_.assign(chunks, nowhere);
}

void PassOrder::install(std::vector<ChunkId> order) {
  chunks_ = std::move(order);
  doubts_.assign(chunks_.size(), 0);
  pace_.clear();
  index_positions();
}

void PassOrder::insert(std::vector<Visit> visits) {
  std::stable_sort(visits.begin(), visits.end(),
                   [](const Visit& one, const Visit& other) { return one.behind < other.behind; });
  std::vector<ChunkId> chunks;
  std::vector<uint8_t> doubts;
  std::vector<float> pace;
  chunks.reserve(chunks_.size() + visits.size());
  auto next = visits.begin();
  for (uint32_t position = 0; position < size(); ++position) {
    chunks.push_back(chunks_[position]);
    doubts.push_back(doubts_[position]);
    if (!pace_.empty()) pace.push_back(pace_[position]);
    for (; next != visits.end() && next->behind == position; ++next) {
      chunks.push_back(next->chunk);
      doubts.push_back(next->is_certain ? certain : 0);
      if (!pace_.empty()) pace.push_back(pace_[position]);
    }
  }
  chunks_ = std::move(chunks);
  doubts_ = std::move(doubts);
  pace_ = std::move(pace);
  index_positions();
}

std::vector<ChunkId> PassOrder::first_visits() const {
  std::vector<ChunkId> chunks;
  chunks.reserve(chunk_count_);
  for (uint32_t position = 0; position < size(); ++position) {
    if (positions_[chunks_[position]] == position) chunks.push_back(chunks_[position]);
  }
  return chunks;
}

uint32_t PassOrder::ahead(ChunkId chunk, uint32_t position) const {
  uint32_t least = nowhere;
  for_each_visit(chunk, [&](uint32_t at) {
    least = std::min(least, at >= position ? at - position : at + size() - position);
  });
  return least;
}

uint32_t PassOrder::behind(ChunkId chunk, uint32_t position) const {
  uint32_t least = nowhere;
  for_each_visit(chunk, [&](uint32_t at) {
    least = std::min(least, at <= position ? position - at : position + size() - at);
  });
  return least;
}

void PassOrder::erase_if(const std::function<bool(uint32_t)>& is_gone) {
  std::vector<bool> stays(size());
  for (uint32_t position = 0; position < size(); ++position) stays[position] = !is_gone(position);
  uint32_t left = 0;
  for (uint32_t position = 0; position < size(); ++position) {
    if (!stays[position]) continue;
    chunks_[left] = chunks_[position];
    doubts_[left] = doubts_[position];
    if (!pace_.empty()) pace_[left] = pace_[position];
    ++left;
  }
  chunks_.resize(left);
  doubts_.resize(left);
  if (!pace_.empty()) pace_.resize(left);
  index_positions();
}

uint32_t PassOrder::nearest_visit(ChunkId chunk, uint32_t position) const {
  const uint32_t forward = ahead(chunk, position);
  const uint32_t backward = behind(chunk, position);
  return (position + (forward < backward ? forward : size() - backward)) % size();
}

void PassOrder::note_not_made(uint32_t position) {
  if (is_doubtful(position) && doubts_[position] < idle_after) ++doubts_[position];
}

bool PassOrder::is_idle(uint32_t position) const {
  if (!is_doubtful(position) || doubts_[position] < idle_after) return false;
  bool has_certain_visit = false;
  for_each_visit(chunks_[position], [&](uint32_t at) { has_certain_visit |= !is_doubtful(at); });
  return has_certain_visit;
}

void PassOrder::set_pace(std::vector<float> pace) {
  WP_ASSERT(pace.size() == chunks_.size());
  pace_ = std::move(pace);
}

void PassOrder::index_positions() {
  std::fill(positions_.begin(), positions_.end(), nowhere);
  next_visits_.resize(size());
  chunk_count_ = 0;
  // From the end on: what is known of a chunk is its first visit behind this position.
  std::vector<uint32_t>& first = positions_;
  for (uint32_t position = size(); position-- > 0;) {
    const ChunkId chunk = chunks_[position];
    chunk_count_ += first[chunk] == nowhere;
    next_visits_[position] = first[chunk];
    first[chunk] = position;
  }
  // The last visit of each chunk leads on to the first one.
  for (uint32_t position = 0; position < size(); ++position) {
    if (next_visits_[position] == nowhere) next_visits_[position] = first[chunks_[position]];
  }
}

}  // namespace weightpager::policy
