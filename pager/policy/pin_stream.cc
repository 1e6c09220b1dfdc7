#include "pager/policy/pin_stream.h"

#include <algorithm>
#include <utility>

namespace weightpager::policy {
namespace {

// This many of the chunks that fill a ring once become tripwires.
constexpr uint32_t tripwires_of_ring = 8;

}  // namespace

PinStream::PinStream(const ChunkTable& table, const Settings& settings)
    : table_(table),
      settings_(settings),
      follower_(table, settings, above_),
      victims_(table, follower_, above_) {}

// ---- Events ----

void PinStream::set_order(const ChunkOrder& order, LayerAbove above) {
  above_ = std::move(above);
  demand_.reset(table_.chunks());
  advice_.reset(table_.chunks());
  victims_.reset();
  growing_.reset(table_.chunks(), order.is_of_file);
  const bool has_loaded = order.is_load_over && growing_.has_filled_much(order);
  follower_.set_order(order, has_loaded,
                      order.is_load_over ? growing_.end(order) : std::vector<ChunkId>());
  if (is_pass_expected_) follower_.begin_pass();
  list_anew();
}

void PinStream::on_resized() {
  follower_.divide();
  list_anew();
}

void PinStream::set_pace(std::vector<float> pace) {
  follower_.set_pace(std::move(pace));
  list_anew();
}

void PinStream::list_anew() {
  ++arrangements_;
  victims_.list_anew();
}

void PinStream::on_touch(ChunkId chunk, uint32_t /*offset_bytes*/) {
  is_pass_expected_ = false;
  victims_.note_touch(chunk);
  growing_.note_touch(chunk);
  if (follower_.note_touch(chunk)) list_anew();
  for (ChunkId behind; (behind = follower_.next_consumed()) != window::no_chunk;) {
    victims_.add_consumed(behind);
  }
  if (table_.state(chunk) == ChunkState::absent) demand_.push(chunk);
}

bool PinStream::on_ready(ChunkId chunk) {
  is_at_standstill_ = false;
  follower_.note_arrival(chunk);
  victims_.note_arrival(chunk);
  if (!follower_.order().contains(chunk) || !follower_.is_expected(chunk)) return false;
  if (follower_.is_pinned(chunk)) return true;
  if (++since_tripwire_ < std::max(ring_chunks() / tripwires_of_ring, 1u)) return true;
  since_tripwire_ = 0;
  return false;
}

// The cursor offers cyclic chunks again when it passes them; others are found by the clock.
void PinStream::on_refused(ChunkId chunk) {
  victims_.note_refusal(chunk);
  const bool is_kept_above = above_.owns(chunk) && above_.keeps(chunk);
  if (!follower_.order().contains(chunk) && !is_kept_above) victims_.add_to_clock(chunk);
}

void PinStream::on_standstill() {
  is_at_standstill_ = true;
  victims_.forget_refusals();
}

void PinStream::will_need(std::span<const ChunkId> chunks) {
  if (!announces_pass(chunks)) {
    for (ChunkId chunk : chunks) advice_.push(chunk);
    return;
  }
  // Such advice after a touch comes from an engine that still sets itself up.
  if (victims_.has_touches()) return;
  is_pass_expected_ = true;
  if (follower_.begin_pass()) list_anew();
}

void PinStream::consumed(std::span<const ChunkId> chunks) {
  for (ChunkId chunk : chunks) {
    if (!above_.owns(chunk)) victims_.add_consumed(chunk);
  }
}

// ---- What is to be done next ----

Action PinStream::next() {
  if (Action it = grant(demand()); it.kind != Action::Kind::none) return it;
  if (Action it = grant(shrink()); it.kind != Action::Kind::none) return it;
  if (Action it = show_unseen(); it.kind != Action::Kind::none) return it;
  if (Action it = grant(advised()); it.kind != Action::Kind::none) return it;
  if (Action it = grant(prefetch()); it.kind != Action::Kind::none) return it;
  return lacks_room_for_growth() ? useless_victim(true) : Action{};
}

Action PinStream::grant(const Wish& wish) {
  if (wish.kind == Wish::Kind::nothing) return {};
  return wish.kind == Wish::Kind::room ? make_room(wish.is_demand) : wish.read();
}

// Chunks that engine threads wait for, in the order of their touches.
PinStream::Wish PinStream::demand() {
  const ChunkId chunk = first_absent(demand_, table_);
  if (chunk == window::no_chunk) return {};
  // What is leaving already makes room: beyond it only what is of no use has to go.
  const bool is_room_coming = !is_at_standstill_ && table_.leaving() >= demand_.count();
  if (table_.room() == 0) return {Wish::Kind::room, !is_room_coming};
  demand_.pop();
  return {Wish::Kind::read, true, chunk};
}

// Chunks whose next touch teaches the order.
Action PinStream::show_unseen() {
  const ChunkId chunk =
      follower_.next_unseen([&](ChunkId it) { return victims_.can_be_hidden(it); });
  if (chunk == window::no_chunk) return {};
  return {.kind = Action::Kind::hide, .chunk = chunk};
}

PinStream::Wish PinStream::advised() {
  const ChunkId chunk = first_absent(advice_, table_);
  if (chunk == window::no_chunk || table_.reading() >= settings_.reads_max) return {};
  if (table_.room() <= 1) return {Wish::Kind::room};
  advice_.pop();
  return {Wish::Kind::read, false, chunk};
}

// The next absent chunk ahead of the cursor, across the end of the pass if need be.
PinStream::Wish PinStream::prefetch() {
  if (table_.reading() >= settings_.reads_max) return {};
  // What is read too far ahead of an engine that copies makes room for copies again.
  if (is_growing() && follower_.read_ahead() >= settings_.reads_max) return {};
  const ChunkId chunk = follower_.next_ahead();
  if (chunk == window::no_chunk) return {};
  // One chunk of room stays free for a demand read, so that it need not wait for an eviction.
  const uint32_t reserve = table_.resident_max() > 8 && ring_chunks() > 0 ? 1 : 0;
  const uint32_t spare = growing_.spare_chunks(table_.resident_max());
  if (table_.room() <= reserve || table_.room_in_window() < spare) return {Wish::Kind::room};
  follower_.note_read_ahead(chunk);
  return {Wish::Kind::read, false, chunk};
}

// ---- Making room ----

// Evicts the chunk that is worth least. A demand read may evict any chunk, a prefetch only one that
// is of no use.
Action PinStream::make_room(bool for_demand) {
  if (table_.lacks_slot()) return free_a_slot(for_demand);
  if (Action it = useless_victim(for_demand); it.kind != Action::Kind::none) return it;
  return for_demand ? useful_victim() : Action{};
}

// Slots are lacking because one is being made, or (mapper `copy`) because all of them hold chunks
// that are not mapped yet, or because the kernel has no memory for more.
Action PinStream::free_a_slot(bool for_demand) {
  if (!for_demand || table_.is_slot_coming() || room_is_on_its_way()) return {};
  if (ChunkId chunk = victims_.any_ready(); chunk != window::no_chunk) return evict(chunk);
  return evict(victims_.oldest());
}

// Nothing that is new has to be written for what is only read ahead.
Action PinStream::useless_victim(bool for_demand) {
  if (is_growing()) {
    const Action it = file_victim(for_demand);
    if (it.kind != Action::Kind::none || !for_demand) return it;
  }
  if (ChunkId chunk = victims_.next_consumed(); chunk != window::no_chunk) return evict(chunk);
  if (!for_demand && !victims_.is_clock_over_share()) return {};
  const SecondChance::Finding found = victims_.next_by_clock();
  if (found.is_to_be_hidden) return {.kind = Action::Kind::hide, .chunk = found.chunk};
  return evict(found.chunk);
}

// Slots that are only being made are no reason to evict anything.
bool PinStream::lacks_room_for_growth() const {
  const uint32_t spare = growing_.spare_chunks(table_.resident_max());
  return table_.room_in_window() + table_.leaving() < spare && !table_.lacks_slot();
}

Action PinStream::file_victim(bool for_demand) {
  if (ChunkId chunk = victims_.take_oldest_of_file(growing_); chunk != window::no_chunk)
    return evict(chunk);
  const bool is_far_ahead = follower_.read_ahead() > settings_.reads_max;
  return for_demand && is_far_ahead ? evict(victims_.farthest_ahead()) : Action{};
}

Action PinStream::useful_victim() {
  if (ChunkId chunk = victims_.farthest_ahead(); chunk != window::no_chunk) return evict(chunk);
  // Where nothing is about to become free, some chunk must go.
  if (room_is_on_its_way() && table_.resident() <= table_.resident_max()) return {};
  return evict(victims_.oldest());
}

Action PinStream::evict(ChunkId chunk) {
  if (chunk == window::no_chunk) return {};
  follower_.note_evicted(chunk);
  growing_.note_evicted(chunk);
  return {.kind = Action::Kind::evict, .chunk = chunk};
}

}  // namespace weightpager::policy
