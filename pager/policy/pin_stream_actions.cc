// What is to be done next, in the order of its worth: what engine threads wait for, what an expert
// in use lacks, what is ahead; and who makes room for it.
#include <algorithm>
#include <utility>

#include "pager/policy/pin_stream.h"

namespace weightpager::policy {
namespace {

// Of experts, in flight at once: a slab, of which there are mostly three, between these. Disks may
// answer together what they find together, and an engine that waits for an expert can compute with
// its first slab while the next one is read. At least as much as any disk's bandwidth times its
// latency, so that nothing is lost by it.
constexpr uint32_t slabs_of_expert = 3;
constexpr uint64_t expert_bytes_in_flight_min = MiB;
constexpr uint64_t expert_bytes_in_flight_max = 4 * MiB;
// Of experts that nobody has come to yet. Who misses another one waits for these first.
constexpr uint64_t returning_bytes_in_flight = MiB / 2;

Action action(Action::Kind kind, ChunkId chunk, bool is_demand = false) {
  return {.kind = kind, .chunk = chunk, .is_demand = is_demand};
}

}  // namespace

Action PinStream::next() {
  if (Action it = demand(); it.kind != Action::Kind::none) return it;
  if (Action it = shrink(); it.kind != Action::Kind::none) return it;
  if (Action it = rest_of_experts(); it.kind != Action::Kind::none) return it;
  if (Action it = spare_room(); it.kind != Action::Kind::none) return it;
  if (Action it = hold(); it.kind != Action::Kind::none) return it;
  // Whatever is read ahead can wait for what an expert in use lacks; the other way round that would
  // never have its turn.
  if (experts_.next_read() != window::no_chunk) return {};
  if (Action it = advised(); it.kind != Action::Kind::none) return it;
  if (Action it = prefetch(); it.kind != Action::Kind::none) return it;
  return returning();
}

// What engine threads wait for, in the order of their touches.
Action PinStream::demand() {
  while (!demand_.is_empty() && table_.state(demand_.front()) != ChunkState::absent) demand_.pop();
  if (demand_.is_empty()) return {};
  if (table_.room() == 0) return make_room(true);
  const ChunkId chunk = demand_.front();
  demand_.pop();
  return action(Action::Kind::read, chunk, true);
}

Action PinStream::shrink() {
  if (table_.resident() <= table_.resident_max()) return {};
  return make_room(true);
}

// Chunks that shall show their next touch.
Action PinStream::hold() {
  for (; unlearned_ < facts_.size(); ++unlearned_) {
    const bool is_seen = facts_[unlearned_].touch_rank != nowhere;
    if (!is_seen && can_be_held(unlearned_)) return action(Action::Kind::hold, unlearned_++);
  }
  for (;;) {
    const ChunkId chunk = experts_.next_hold();
    if (chunk == window::no_chunk) return {};
    if (can_be_held(chunk)) {
      return {.kind = Action::Kind::hold, .chunk = chunk, .is_used_whole = true};
    }
  }
}

// What an expert in use still lacks: the engine will come to it within microseconds.
Action PinStream::rest_of_experts() {
  const ChunkId chunk = experts_.next_read();
  const uint32_t slab_chunks =
      (experts_.chunks_of_largest() + slabs_of_expert - 1) / slabs_of_expert;
  const uint32_t reads_max =
      std::min(settings_.reads_max,
               std::max(4u, std::clamp(slab_chunks, chunks_in(expert_bytes_in_flight_min),
                                       chunks_in(expert_bytes_in_flight_max))));
  if (chunk == window::no_chunk || table_.reading() >= reads_max) return {};
  if (table_.room() > 0) return action(Action::Kind::read, chunk);
  if (table_.lacks_slot()) return {};
  if (Action it = make_room(false); it.kind != Action::Kind::none) return it;
  if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  experts_.drop_reads();
  return {};
}

// Made when the disk has been asked for all that the last expert lacked.
Action PinStream::spare_room() {
  const bool is_asked = experts_.next_read() == window::no_chunk;
  const bool is_wanted = is_asked && table_.room() < spare_ && experts_.is_over_budget();
  return is_wanted ? expert_victim() : Action{};
}

Action PinStream::advised() {
  while (!advice_.is_empty() && table_.state(advice_.front()) != ChunkState::absent) advice_.pop();
  if (advice_.is_empty() || table_.reading() >= settings_.reads_max) return {};
  if (table_.room() <= 1) return make_room(false);
  const ChunkId chunk = advice_.front();
  advice_.pop();
  return action(Action::Kind::read, chunk);
}

// The next absent chunk ahead of the cursor, across the end of the pass if need be.
Action PinStream::prefetch() {
  if (!has_cursor_ || table_.reading() >= settings_.reads_max) return {};
  if (ahead_ >= ahead_max_) return {};
  const Place limit = cursor_ + size() - std::min(linger_, size() / 2);
  while (frontier_ < limit) {
    const ChunkId chunk = chunk_at(frontier_);
    if (table_.state(chunk) == ChunkState::absent) break;
    ++frontier_;
  }
  if (frontier_ >= limit) return {};
  // One chunk of room stays free for a demand read, so that it need not wait for an eviction.
  const uint32_t reserve = table_.resident_max() > 8 && ring_ > 0 ? 1 : 0;
  if (table_.room() <= reserve) return make_room(false);
  const ChunkId chunk = chunk_at(frontier_++);
  facts_[chunk].is_prefetched = true;
  facts_[chunk].is_late = false;
  ++ahead_;
  return action(Action::Kind::read, chunk);
}

// Into room that nobody else wants: the window has grown. As much as the next ones that are missed
// take stays free, or these would push out again what has just been read.
Action PinStream::returning() {
  const uint32_t reads_max = std::max(chunks_in(returning_bytes_in_flight), 1u);
  const uint32_t reserve = spare_ + 2 * experts_.chunks_of_largest();
  if (table_.reading() >= reads_max || table_.room() <= reserve) return {};
  const ChunkId chunk = experts_.next_return();
  return chunk == window::no_chunk ? Action{} : action(Action::Kind::read, chunk);
}

// ---- Making room ----

// Evicts what is worth least. A demand read may take anything, a prefetch only what is of no use.
Action PinStream::make_room(bool for_demand) {
  if (table_.lacks_slot()) return free_a_slot(for_demand);
  if (experts_.is_over_budget()) {
    if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  }
  if (ChunkId chunk = pop_consumed(); chunk != window::no_chunk) return evict(chunk);
  if (clock_.size() > sparse_max_ || (for_demand && !clock_.empty())) {
    if (Action it = clock_victim(); it.kind != Action::Kind::none) return it;
  }
  if (!for_demand) return {};
  if (Action it = expert_victim(); it.kind != Action::Kind::none) return it;
  if (ChunkId chunk = farthest_prefetched(); chunk != window::no_chunk) return evict(chunk);
  // Where nothing is about to become free, somebody must go.
  if (room_is_on_its_way() && table_.resident() <= table_.resident_max()) return {};
  if (ChunkId chunk = any_victim(); chunk != window::no_chunk) return evict(chunk);
  return {};
}

// The window has room, but no slot to read into: one is being made, or (mapper `copy`) all of them
// hold chunks that are not mapped yet, or the kernel has no memory for more.
Action PinStream::free_a_slot(bool for_demand) {
  if (!for_demand || table_.is_slot_coming() || room_is_on_its_way()) return {};
  for (ChunkId chunk = 0; chunk < facts_.size(); ++chunk) {
    const bool is_held = table_.state(chunk) == ChunkState::ready;
    if (is_held && !is_recent(chunk)) return evict(chunk);
  }
  if (ChunkId chunk = any_victim(); chunk != window::no_chunk) return evict(chunk);
  return {};
}

// Chunks that cannot go now are left to the clock.
Action PinStream::expert_victim() {
  for (;;) {
    const ChunkId chunk = experts_.next_victim();
    if (chunk == window::no_chunk) return {};
    if (!is_evictable(chunk) || is_recent(chunk)) {
      add_to_clock(chunk);
      continue;
    }
    // Its neighbours with it, if it is their turn: they were read together, and go for one price.
    Action it = evict(chunk);
    for (ChunkId next = chunk + 1; it.count < settings_.evictions_max; ++next, ++it.count) {
      if (!experts_.goes_next(next) || !is_evictable(next) || is_recent(next)) break;
      experts_.let_go(next);
    }
    return it;
  }
}

// The chunk that was consumed last is the one that is needed again last. At most `recent_touches`
// chunks are passed over, so this is O(1).
ChunkId PinStream::pop_consumed() {
  for (size_t i = consumed_.size(); i-- > 0;) {
    const ChunkId chunk = consumed_[i];
    if (is_recent(chunk)) continue;
    consumed_[i] = consumed_.back();
    consumed_.pop_back();
    facts_[chunk].is_consumed = false;
    if (is_evictable(chunk) && !facts_[chunk].is_pinned && !is_protected(chunk)) return chunk;
  }
  return window::no_chunk;
}

void PinStream::add_to_clock(ChunkId chunk) {
  if (facts_[chunk].is_in_clock) return;
  facts_[chunk].is_in_clock = true;
  clock_.push_back(chunk);
}

// Second chance. There is no accessed bit to read, so the hand takes a mapped chunk out of the
// region (keeping its bytes); if it is touched before the hand comes back, it stays.
Action PinStream::clock_victim() {
  for (size_t steps = 2 * clock_.size(); steps > 0 && !clock_.empty(); --steps) {
    if (hand_ >= clock_.size()) hand_ = 0;
    const ChunkId chunk = clock_[hand_];
    Facts& facts = facts_[chunk];
    const ChunkState state = table_.state(chunk);
    if (state == ChunkState::reading) {
      ++hand_;
      continue;
    }
    if (is_recent(chunk) || evictability_.is_refused(chunk)) {
      ++hand_;
      continue;
    }
    const bool is_kept = experts_.owns(chunk) && experts_.keeps(chunk);
    const bool leaves = !is_evictable(chunk) || is_kept || facts.is_pinned || is_protected(chunk);
    if (!leaves && facts.is_referenced) {
      facts.is_referenced = false;
      ++hand_;
      if (can_be_held(chunk)) return action(Action::Kind::hold, chunk);
      continue;
    }
    facts.is_in_clock = false;
    clock_[hand_] = clock_.back();
    clock_.pop_back();
    if (!leaves) return evict(chunk);
  }
  return {};
}

// The prefetched chunk that is needed last: stale if the engine went elsewhere.
ChunkId PinStream::farthest_prefetched() const {
  if (!has_cursor_) return window::no_chunk;
  for (Place place = frontier_; place-- > cursor_ + 1;) {
    const ChunkId chunk = chunk_at(place);
    if (facts_[chunk].is_prefetched && is_evictable(chunk) && !is_recent(chunk)) return chunk;
  }
  return window::no_chunk;
}

// The last resort: whatever was touched longest ago, pinned chunks last.
ChunkId PinStream::any_victim() const {
  ChunkId victim = window::no_chunk;
  const auto worth = [&](ChunkId chunk) {
    return std::pair(facts_[chunk].is_pinned, evictability_.last_touch(chunk));
  };
  for (ChunkId chunk = 0; chunk < facts_.size(); ++chunk) {
    if (!is_evictable(chunk) || !table_.leaves_room(chunk)) continue;
    if (victim == window::no_chunk || worth(chunk) < worth(victim)) victim = chunk;
  }
  return victim;
}

Action PinStream::evict(ChunkId chunk) {
  Facts& facts = facts_[chunk];
  if (facts.is_prefetched) {
    facts.is_prefetched = false;
    --ahead_;
    ++statistics_.prefetch_unused;
  }
  // A hole in what was asked for: ask again from there on.
  if (has_cursor_ && facts.position != nowhere) {
    const Place place = cursor_ + forward_distance(facts.position);
    if (place < frontier_) frontier_ = place;
  }
  return action(Action::Kind::evict, chunk);
}

}  // namespace weightpager::policy
