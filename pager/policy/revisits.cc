#include "pager/policy/revisits.h"

#include <algorithm>
#include <utility>

namespace weightpager::policy {

void Revisits::reset(uint32_t chunks) {
  notes_.assign(chunks, {});
  is_found_.assign(chunks, false);
  found_.clear();
  found_.reserve(chunks);
}

// At most one visit of a chunk is added at a time. If the chunk lacks another one, that is noted
// when the first one is part of the order.
Revisits::Kind Revisits::note(ChunkId chunk, uint32_t position, uint32_t apart) {
  if (is_found_[chunk]) return Kind::found;
  const Note before = notes_[chunk];
  const bool is_noted = before.at != window::no_chunk && order_.contains(before.at);
  const uint64_t gone = gone_ - before.gone;
  // The chunk came and went once more before the engine has gone on.
  if (is_noted && gone <= apart) return Kind::first;
  notes_[chunk] = {gone_, 1, order_[position]};
  if (!is_noted || !may_be_last_pass(gone)) return Kind::first;
  const uint32_t back = order_.behind(before.at, position);
  if (std::min(back, order_.ahead(before.at, position)) > apart) return Kind::elsewhere;
  if (!is_one_pass(gone)) return Kind::first;
  notes_[chunk].passes = before.passes + 1;
  if (notes_[chunk].passes < (order_.contains(chunk) ? 2 : 3)) return Kind::first;
  // The earlier of the two: too early costs a place in the ring, too late costs a wait.
  const uint32_t size = order_.size();
  const uint32_t earlier = back <= apart ? (position + size - back) % size : position;
  is_found_[chunk] = true;
  found_.push_back({.behind = earlier, .chunk = chunk, .is_certain = true});
  return Kind::found;
}

bool Revisits::may_be_last_pass(uint64_t gone) const {
  return gone > order_.size() / 2 && gone < uint64_t{2} * order_.size();
}

// Nearly: the order may have lost or gained visits meanwhile.
bool Revisits::is_one_pass(uint64_t gone) const {
  const uint64_t off_max = order_.size() / 4;
  return gone + off_max >= order_.size() && gone <= order_.size() + off_max;
}

std::vector<PassOrder::Visit> Revisits::take_found() {
  for (const PassOrder::Visit& visit : found_) is_found_[visit.chunk] = false;
  std::vector<PassOrder::Visit> visits = found_;
  found_.clear();
  const auto is_new = [&](const PassOrder::Visit& visit) { return !order_.contains(visit.chunk); };
  if (std::ranges::count_if(visits, is_new) >= matrix_chunks_min_) return visits;
  std::erase_if(visits, [&](const PassOrder::Visit& visit) {
    return is_new(visit) && !is_beside_order(visit.chunk);
  });
  return visits;
}

// Part of a matrix whose other chunks were found before.
bool Revisits::is_beside_order(ChunkId chunk) const {
  const bool has_next = chunk + 1 < notes_.size() && order_.contains(chunk + 1);
  return has_next || (chunk > 0 && order_.contains(chunk - 1));
}

}  // namespace weightpager::policy
