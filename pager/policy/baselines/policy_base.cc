#include "pager/policy/baselines/policy_base.h"

#include <algorithm>

namespace weightpager::policy {
namespace {

// A thread that was given a chunk needs a moment to use it. So this many of the last deliveries are
// safe, unless the window is too small for that.
constexpr uint32_t recent_touches_max = 8;

}  // namespace

void PolicyBase::set_order(const ChunkOrder& order) {
  const uint32_t chunks = table_.chunks();
  order_ = order;
  positions_.assign(chunks, nowhere);
  for (uint32_t at = 0; at < order_size(); ++at) positions_[order_.cyclic[at]] = at;
  evictability_.reset();
  demand_.reset(chunks);
  advice_.reset(chunks);
  ages_.reset(chunks);
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    if (table_.is_resident(chunk)) ages_.put_front(chunk);
  }
  use_order();
}

bool PolicyBase::is_recent(ChunkId chunk) const {
  return evictability_.is_among_last(chunk,
                                     std::clamp(table_.resident_max() / 4, 1u, recent_touches_max));
}

// ---- Events ----

void PolicyBase::on_touch(ChunkId chunk, uint32_t /*offset_bytes*/) {
  evictability_.note_touch(chunk);
  if (position(chunk) != nowhere) count_pass(position(chunk));
  touched(chunk);
  if (table_.state(chunk) == ChunkState::absent) demand_.push(chunk);
}

void PolicyBase::count_pass(uint32_t position) {
  if (position + order_size() / 2 < last_position_) ++statistics_.passes;
  last_position_ = position;
}

bool PolicyBase::on_ready(ChunkId chunk) {
  is_at_standstill_ = false;
  if (!ages_.contains(chunk)) ages_.put_front(chunk);
  if (is_recent(chunk)) evictability_.note_delivery(chunk);
  return arrived(chunk);
}

void PolicyBase::on_refused(ChunkId chunk) {
  evictability_.note_refusal(chunk);
  ages_.put_front(chunk);
}

void PolicyBase::on_standstill() {
  is_at_standstill_ = true;
  evictability_.forget_refusals();
}

void PolicyBase::will_need(std::span<const ChunkId> chunks) {
  if (chunks.size() > table_.resident_max() / 2) return;
  for (ChunkId chunk : chunks) advice_.push(chunk);
}

void PolicyBase::consumed(std::span<const ChunkId> chunks) {
  for (ChunkId chunk : chunks) {
    if (ages_.contains(chunk)) ages_.put_back(chunk);
  }
}

// ---- Actions ----

Action PolicyBase::next() {
  if (Action it = demand(); it.kind != Action::Kind::none) return it;
  if (table_.resident() > table_.resident_max()) return make_room(true);
  if (Action it = hide(); it.kind != Action::Kind::none) return it;
  if (Action it = advised(); it.kind != Action::Kind::none) return it;
  return ahead();
}

// Chunks that engine threads wait for, in the order of their touches.
Action PolicyBase::demand() {
  while (!demand_.is_empty() && table_.state(demand_.front()) != ChunkState::absent) demand_.pop();
  if (demand_.is_empty()) return {};
  if (table_.room() == 0) return make_room(true);
  const ChunkId chunk = demand_.front();
  demand_.pop();
  return {Action::Kind::read, chunk, true};
}

Action PolicyBase::hide() {
  for (;;) {
    const ChunkId chunk = next_hold();
    if (chunk == window::no_chunk) return {};
    if (can_be_hidden(chunk)) return {Action::Kind::hide, chunk};
  }
}

Action PolicyBase::advised() {
  while (!advice_.is_empty() && table_.state(advice_.front()) != ChunkState::absent) advice_.pop();
  if (advice_.is_empty() || table_.reading() >= settings_.reads_max) return {};
  if (table_.room() <= 1) return make_room(false);
  const ChunkId chunk = advice_.front();
  advice_.pop();
  return {Action::Kind::read, chunk};
}

// One chunk of room stays free for a demand read, so that it need not wait for an eviction.
Action PolicyBase::ahead() {
  if (table_.reading() >= settings_.reads_max) return {};
  const ChunkId chunk = next_ahead();
  if (chunk == window::no_chunk) return {};
  if (table_.room() <= 1) return make_room(false);
  return {Action::Kind::read, chunk};
}

Action PolicyBase::make_room(bool for_demand) {
  if (!table_.lacks_slot()) {
    if (Action it = victim(for_demand); it.kind != Action::Kind::none) return it;
  }
  return for_demand ? last_resort() : Action{};
}

Action PolicyBase::victim(bool for_demand) {
  for (ChunkId chunk = ages_.back(); chunk != window::no_chunk; chunk = ages_.before(chunk)) {
    if (is_evictable(chunk) && !is_recent(chunk) && may_go(chunk)) return evict(chunk);
  }
  if (!for_demand) return {};
  for (ChunkId chunk = ages_.back(); chunk != window::no_chunk; chunk = ages_.before(chunk)) {
    if (is_evictable(chunk) && !is_recent(chunk)) return evict(chunk);
  }
  return {};
}

// Where nothing is about to become free, the oldest chunk must go, even if it is needed.
Action PolicyBase::last_resort() {
  if (table_.is_slot_coming()) return {};
  const bool room_is_on_its_way = table_.reading() > 0 && !is_at_standstill_;
  if (room_is_on_its_way && table_.resident() <= table_.resident_max()) return {};
  for (ChunkId chunk = ages_.back(); chunk != window::no_chunk; chunk = ages_.before(chunk)) {
    const bool may_go = is_evictable(chunk) && !evictability_.is_among_last(chunk, 1);
    if (may_go && table_.leaves_room(chunk)) return evict(chunk);
  }
  return {};
}

Action PolicyBase::evict(ChunkId chunk) {
  ages_.erase(chunk);
  return {Action::Kind::evict, chunk};
}

}  // namespace weightpager::policy
