#include "pager/policy/pin_stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "pager/base/assert.h"
#include "pager/policy/reordered.h"

namespace weightpager::policy {
namespace {

// Threads of one matrix multiplication work some MiB apart.
constexpr uint64_t linger_bytes_min = 8 * MiB;
// How far ahead of what was expected a touch may be and still count as going on, and how far behind
// at least.
constexpr uint64_t leap_bytes = 64 * MiB;
constexpr uint64_t behind_bytes_min = 16 * MiB;
constexpr uint64_t apart_bytes_max = 128 * MiB;
constexpr uint64_t ahead_bytes_first = 8 * MiB;
constexpr uint64_t ring_bytes_min = 8 * MiB;
// Of what is no part of the cyclic order an engine looks at rows here and there, each of which
// takes a chunk, whatever its size.
constexpr uint32_t sparse_chunks_max = 16;
constexpr uint32_t order_lessons_max = 4;
// So many chunks, one after the other, that were touched before: the next pass has begun.
constexpr size_t again_max = 8;
// Of experts, in flight at once: a slab, of which there are mostly three, between these. Disks may
// answer together what they find together, and an engine that waits for an expert can compute with
// its first slab while the next one is read. At least as much as any disk's bandwidth times its
// latency, so that nothing is lost by it.
constexpr uint32_t slabs_of_expert = 3;
constexpr uint64_t expert_bytes_in_flight_min = MiB;
constexpr uint64_t expert_bytes_in_flight_max = 4 * MiB;
// Of experts that nobody has come to yet. Who misses another one waits for these first.
constexpr uint64_t returning_bytes_in_flight = MiB / 2;
// A thread that was given a chunk needs a moment to use it: as many deliveries are safe, and more
// where threads are far apart.
constexpr uint64_t recent_touches = 8;
constexpr uint64_t recent_touches_apart = 16;

Action action(Action::Kind kind, ChunkId chunk, bool is_demand = false) {
  return {.kind = kind, .chunk = chunk, .is_demand = is_demand};
}

}  // namespace

// ---- The order, and what stays ----

PinStream::PinStream(const ChunkTable& table, const Settings& settings)
    : table_(table),
      settings_(settings),
      evictability_(table),
      linger_(chunks_in(linger_bytes_min)),
      experts_(table) {}

void PinStream::set_order(const ChunkOrder& order) {
  const uint32_t chunks = table_.chunks();
  facts_.assign(chunks, Facts{});
  evictability_.reset();
  for (ChunkId chunk : order.revisited) facts_[chunk].is_revisited = true;
  for (ChunkId chunk : order.kept) facts_[chunk].is_kept = true;
  demand_.reset(chunks);
  advice_.reset(chunks);
  consumed_.reserve(chunks);
  clock_.reserve(chunks);
  touched_in_order_.reserve(chunks);
  begin_learning();
  unlearned_ = chunks;
  experts_.set_experts(settings_.knows_experts ? std::span(order.experts)
                                               : std::span<const ExpertChunks>());
  is_order_taught_ = !order.lesson.is_empty();
  declared_order_ = is_order_taught_ ? reordered(order.cyclic, order.lesson.order) : order.cyclic;
  install_order(declared_order_);
  if (is_pass_expected_) begin_pass();
}

void PinStream::install_order(std::vector<ChunkId> order) {
  order_ = std::move(order);
  pace_.clear();
  use_order();
  order_changed(false);
}

// What two passes left untouched is not part of the pass: it loses its pin and its place.
void PinStream::shorten_order() {
  uint32_t left = 0;
  for (uint32_t position = 0; position < size(); ++position) {
    if (facts_[order_[position]].untouched_passes >= 2) continue;
    order_[left] = order_[position];
    if (!pace_.empty()) pace_[left] = pace_[position];
    ++left;
  }
  order_.resize(left);
  if (!pace_.empty()) pace_.resize(left);
  use_order();
  order_changed(true);
}

void PinStream::use_order() {
  for (Facts& facts : facts_) {
    facts.position = nowhere;
    facts.is_prefetched = false;
  }
  for (uint32_t position = 0; position < size(); ++position) {
    facts_[order_[position]].position = position;
  }
  has_cursor_ = false;
  ahead_ = 0;
  candidate_ = nowhere;
  choose_pins();
  rebuild_lists();
}

Lesson PinStream::lesson() const {
  if (!is_order_taught_ && pace_.empty()) return {};
  return {order_, pace_.empty() ? std::vector<float>(size(), 0) : pace_};
}

void PinStream::on_resized() {
  choose_pins();
  rebuild_lists();
}

void PinStream::set_pace(std::vector<float> pace) {
  WP_ASSERT(pace.size() == order_.size());
  pace_ = std::move(pace);
  on_resized();
}

// By position: what of it should be pinned, so that everywhere the same share of the time that the
// engine computes is needed to read the rest. Where it computes for so long that all could be
// streamed, nothing is pinned, and the others share what that saves.
std::vector<float> PinStream::pinned_shares() const {
  std::vector<float> shares(size(), 1);
  if (pace_.empty()) return shares;
  std::vector<bool> is_streamed(size(), false);
  for (;;) {
    double streamed = size() - pinned_;
    double time = 0;
    for (uint32_t at = 0; at < size(); ++at) {
      is_streamed[at] ? streamed -= 1 : time += pace_[at];
    }
    bool is_settled = true;
    for (uint32_t at = 0; at < size(); ++at) {
      const double share = is_streamed[at] || time <= 0 ? 1 : streamed * pace_[at] / time;
      is_settled = is_settled && (is_streamed[at] || share < 1);
      is_streamed[at] = share >= 1;
      shares[at] = static_cast<float>(1 - std::min(share, 1.0));
    }
    if (is_settled) return shares;
  }
}

// Splits the window into pins, ring and sparse share, and spreads the pins. Multiples of the golden
// ratio fill the circle evenly for every count, and a larger set contains each smaller one, so that
// a window that grows or shrinks moves as few pins as possible.
void PinStream::choose_pins() {
  for (Facts& facts : facts_) facts.is_pinned = false;
  const auto chunks = static_cast<uint32_t>(facts_.size());
  const uint32_t window = table_.resident_max();
  const uint32_t sparse_chunks = chunks - size() - experts_.chunks();
  sparse_max_ = std::min(sparse_chunks, std::clamp(window / 32, 2u, sparse_chunks_max));
  // Room for the experts of one layer to work in.
  const uint32_t experts_min = std::min(
      {experts_.chunks(), std::max(window / 8, 2 * experts_.chunks_of_largest()), window / 2});

  const uint32_t taken = sparse_max_ + experts_min;
  const uint32_t for_order = window > taken ? window - taken : 0;
  if (for_order >= size()) {
    // Everything that is cyclic fits; what is left over serves experts, then the rest.
    ring_ = 0;
    pinned_ = size();
    const uint32_t for_experts = std::min(experts_.chunks(), window - size() - sparse_max_);
    give_experts(for_experts);
    sparse_max_ = window - size() - for_experts;
  } else {
    give_experts(experts_min);
    const uint32_t missing = size() - for_order;
    const uint32_t ring_min = chunks_in(ring_bytes_min);
    const uint32_t ring_wanted =
        std::max({window / 4, ring_min, are_threads_apart_ ? ring_widest() : 0});
    ring_ = std::min(
        {chunks_in(settings_.ring_bytes_max), ring_wanted, std::max(missing, ring_min), for_order});
    pinned_ = for_order - ring_;
    // A short ring cannot afford to keep much of what is behind the cursor.
    linger_ = std::min(chunks_in(linger_bytes_min), std::max(ring_ / 4, 1u));
  }

  std::vector<uint32_t> positions(size());
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<float> shares = pinned_shares();
  const auto rank = [&](uint32_t position) {
    constexpr double golden_ratio = 0.6180339887498949;
    const double turn = position * golden_ratio - std::floor(position * golden_ratio);
    if (facts_[order_[position]].is_kept) return turn - 2;
    if (facts_[order_[position]].is_revisited) return turn - 1;
    return turn / std::max<double>(shares[position], 1e-6);
  };
  std::sort(positions.begin(), positions.end(),
            [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  for (uint32_t i = 0; i < pinned_; ++i) facts_[order_[positions[i]]].is_pinned = true;
}

// Some of it stays free for the next expert that is missing, if any can be: its reads start without
// waiting for evictions, and what leaves together leaves slots that lie side by side.
void PinStream::give_experts(uint32_t chunks) {
  const bool all_fit = chunks == experts_.chunks();
  spare_ = all_fit ? 0 : std::min(experts_.chunks_of_largest(), chunks / 16);
  experts_.set_budget(chunks - spare_);
}

// Offers everything for eviction that is resident without a reason.
void PinStream::rebuild_lists() {
  consumed_.clear();
  clock_.clear();
  hand_ = 0;
  for (Facts& facts : facts_) facts.is_consumed = facts.is_in_clock = false;
  for (ChunkId chunk = 0; chunk < facts_.size(); ++chunk) {
    if (!table_.is_resident(chunk) || facts_[chunk].is_pinned) continue;
    if (experts_.owns(chunk)) {
      if (!experts_.keeps(chunk)) experts_.release(chunk);
    } else if (facts_[chunk].position == nowhere) {
      add_to_clock(chunk);
    } else if (!is_around_cursor(chunk)) {
      facts_[chunk].is_consumed = true;
      consumed_.push_back(chunk);
    }
  }
}

// ---- Where the engine is ----

uint32_t PinStream::forward_distance(uint32_t position) const {
  const auto here = static_cast<uint32_t>(cursor_ % size());
  return position >= here ? position - here : position + size() - here;
}

uint32_t PinStream::backward_distance(uint32_t position) const {
  const uint32_t forward = forward_distance(position);
  return forward == 0 ? 0 : size() - forward;
}

bool PinStream::is_recent(ChunkId chunk) const {
  const uint64_t touches_max = are_threads_apart_ ? recent_touches_apart : recent_touches;
  return evictability_.is_among_last(chunk,
                                     std::min<uint64_t>(touches_max, std::max(ring_ / 4, 2u)));
}

// From a little behind the cursor to the frontier: the cursor has yet to leave it behind, which is
// what lists it for eviction. Whatever is resident elsewhere has to be in a list already, or nobody
// would think of it for the rest of the pass.
bool PinStream::is_around_cursor(ChunkId chunk) const {
  const uint32_t position = facts_[chunk].position;
  if (!has_cursor_ || position == nowhere) return false;
  return backward_distance(position) <= linger_ || forward_distance(position) < frontier_ - cursor_;
}

void PinStream::on_touch(ChunkId chunk, uint32_t offset_bytes) {
  Facts& facts = facts_[chunk];
  is_pass_expected_ = false;
  facts.is_referenced = true;
  facts.untouched_passes = 0;
  evictability_.note_touch(chunk);
  if (facts.position != nowhere) {
    follow_cursor(chunk);
    reconsider();
    note_first_touch(chunk);
    if (!has_cursor_ && facts.position != nowhere) jump_to(facts.position);
  }
  if (experts_.owns(chunk)) touch_expert(chunk, offset_bytes);
  if (table_.state(chunk) == ChunkState::absent) demand_.push(chunk);
  if (table_.state(chunk) == ChunkState::reading) facts.is_late = true;
}

void PinStream::touch_expert(ChunkId chunk, uint32_t offset_bytes) {
  const ExpertCache::Touch touch = experts_.on_touch(chunk, offset_bytes);
  statistics_.expert_uses += touch.is_use;
  statistics_.expert_misses += touch.missing_chunks > 0;
  statistics_.expert_chunks_missing += touch.missing_chunks;
  statistics_.passes += touch.is_new_pass;
}

void PinStream::follow_cursor(ChunkId chunk) {
  const uint32_t position = facts_[chunk].position;
  if (!has_cursor_) return jump_to(position);

  const uint32_t behind_max = std::min(std::max(ring_, chunks_in(behind_bytes_min)), size() / 4);
  const uint32_t apart_max = chunks_in(linger_bytes_min);
  const bool is_absent = table_.state(chunk) == ChunkState::absent;
  const uint32_t backward = backward_distance(position);
  if (backward <= behind_max) {
    // A chunk that was evicted too early: let chunks linger longer, up to half of the ring.
    if (backward > 0 && is_absent) {
      if (linger_ >= ring_ / 2) ++cramped_;
      linger_ = std::max(linger_, std::min({backward + 1, linger_ * 2, ring_ / 2}));
      consumed_before_ = std::min(consumed_before_, lingers_from());
    }
    candidate_ = nowhere;
    return;
  }

  const uint32_t forward = forward_distance(position);
  const auto ahead = static_cast<uint32_t>(frontier_ - cursor_);
  const uint32_t leap_max = is_absent ? apart_max : chunks_in(leap_bytes);
  if (forward <= ahead + leap_max) {
    candidate_ = nowhere;
    return advance_to(cursor_ + forward);
  }

  // Far from where the engine should be. Two such touches in a row that follow each other say that
  // the engine is there; a single one is a stray, or a thread that is further behind than the ring
  // is long, but not than it could be.
  ++(is_absent && backward <= ring_widest() ? cramped_ : strays_);
  const bool is_confirmed = candidate_ != nowhere && position > candidate_ &&
                            position - candidate_ <= chunks_in(leap_bytes);
  candidate_ = position;
  if (is_confirmed) jump_to(position);
}

// The engine follows the order, so reading ahead pays: further each time, until slots are the
// limit.
void PinStream::advance_to(Place place) {
  const Place passes = place / size() - cursor_ / size();
  leave_behind(place);
  frontier_ = std::max(frontier_, cursor_);
  ahead_max_ = std::min(ahead_max_ * 2, table_.resident_max());
  list_consumed();
  if (passes > 0) end_pass(passes);
}

void PinStream::jump_to(uint32_t position) {
  // Beginning with the second pass keeps "a little behind" from being before the beginning.
  const Place place = has_cursor_ ? cursor_ + forward_distance(position) : size() + position;
  const Place passes = has_cursor_ ? place / size() - cursor_ / size() : 0;
  if (has_cursor_) leave_behind(place);
  for (Facts& facts : facts_) facts.is_prefetched = false;
  ahead_ = 0;
  ahead_max_ = chunks_in(ahead_bytes_first);
  cursor_ = frontier_ = place;
  consumed_before_ = lingers_from();
  has_cursor_ = true;
  candidate_ = nowhere;
  rebuild_lists();
  if (passes > 0) end_pass(passes);
}

void PinStream::leave_behind(Place place) {
  for (; cursor_ < place; ++cursor_) {
    const ChunkId chunk = chunk_at(cursor_);
    Facts& facts = facts_[chunk];
    const bool is_untouched =
        facts.touch_rank == nowhere && table_.state(chunk) != ChunkState::mapped;
    if (is_untouched && facts.untouched_passes < 2) ++facts.untouched_passes;
    if (!facts.is_prefetched) continue;
    facts.is_prefetched = false;
    --ahead_;
    const bool was_there = !facts.is_late && table_.state(chunk) != ChunkState::reading;
    if (was_there) ++statistics_.prefetch_hidden;
  }
}

void PinStream::end_pass(uint64_t passes) {
  // Where there are experts, they show passes better: all that is cyclic may be pinned, and silent.
  if (experts_.is_empty()) statistics_.passes += passes;
  if (is_learning_) return;
  const auto is_untouched = [&](ChunkId chunk) { return facts_[chunk].untouched_passes >= 2; };
  if (std::none_of(order_.begin(), order_.end(), is_untouched)) return;
  const ChunkId here = chunk_at(cursor_);
  shorten_order();
  if (facts_[here].position != nowhere) jump_to(facts_[here].position);
}

uint32_t PinStream::ring_widest() const {
  return std::min(table_.resident_max() / 2, chunks_in(apart_bytes_max));
}

// Threads that are further apart than the usual ring allows cost more than the pins that it takes.
void PinStream::widen_ring() {
  are_threads_apart_ = true;
  on_resized();
}

// Chunks that fell behind the cursor, and out of use, may be evicted.
void PinStream::list_consumed() {
  for (; consumed_before_ < lingers_from(); ++consumed_before_) {
    list_consumed(chunk_at(consumed_before_));
  }
}

void PinStream::list_consumed(ChunkId chunk) {
  Facts& facts = facts_[chunk];
  if (facts.is_pinned || facts.is_consumed || facts.is_in_clock) return;
  if (!is_evictable(chunk)) return;  // still reading: on_ready will list it
  facts.is_consumed = true;
  consumed_.push_back(chunk);
}

// ---- Learning the order ----

// What was taken for the order, or for enough of a ring, may have turned out not to be. An order
// that was learned while the engine loaded can look like threads that are apart: it is looked at
// first.
void PinStream::reconsider() {
  if (is_learning_ || !(is_much(strays_) || is_much(cramped_))) return;
  const bool is_first_order = statistics_.order_corrections > 0 && lessons_ == 0;
  const bool may_learn = is_much(strays_) && lessons_ < order_lessons_max;
  if (is_first_order || may_learn) return learn_again();
  if (is_much(cramped_) && !are_threads_apart_) widen_ring();
}

void PinStream::begin_learning() {
  is_learning_ = true;
  touched_in_order_.clear();
  touched_again_ = 0;
}

void PinStream::note_first_touch(ChunkId chunk) {
  Facts& facts = facts_[chunk];
  const size_t seen = touched_in_order_.size();
  if (facts.touch_rank == nowhere) {
    facts.touch_rank = static_cast<uint32_t>(seen);
    touched_in_order_.push_back(chunk);
    touched_again_ = 0;
    return;
  }
  if (!is_learning_ || seen < 8 || seen < size() / 4 || facts.touch_rank >= seen / 2) return;
  // Back at what was touched long ago, and nothing new between: a pass is over, everything it
  // touches was seen.
  if (++touched_again_ >= std::min(again_max, seen / 8)) end_learning();
}

void PinStream::end_learning() {
  is_learning_ = false;
  arrivals_ = strays_ = cramped_ = 0;
  if (!is_contradicted()) return;
  ++statistics_.order_corrections;
  is_order_taught_ = true;
  count_lesson();
  install_order(reordered(order_, touched_in_order_));
}

// Whether many of the first touches lay behind others, by more than threads out of step do. Of the
// first half nothing is said: an engine that loads looks at places all over the model.
bool PinStream::is_contradicted() const {
  uint32_t behind = 0;
  uint32_t farthest = facts_[touched_in_order_[touched_in_order_.size() / 2]].position;
  for (size_t i = touched_in_order_.size() / 2; i < touched_in_order_.size(); ++i) {
    const uint32_t position = facts_[touched_in_order_[i]].position;
    const uint32_t forward = (position + size() - farthest) % size();
    if (forward <= size() / 2) {
      farthest = position;
    } else if (size() - forward > chunks_in(linger_bytes_min)) {
      ++behind;
    }
  }
  return behind > std::max(4u, size() / 100);
}

// Everything that is mapped and not touched since is held once, so that the next pass shows every
// first touch again.
void PinStream::learn_again() {
  ++lessons_;
  begin_learning();
  for (Facts& facts : facts_) {
    facts.touch_rank = nowhere;
    facts.untouched_passes = 0;
  }
  // What was taken for unused gets its place again.
  if (size() < declared_order_.size()) install_order(reordered(declared_order_, order_));
  unlearned_ = 0;
}

// ---- Events that are no touches ----

bool PinStream::on_ready(ChunkId chunk) {
  is_at_standstill_ = false;
  // What is few among so many reads are threads out of step.
  if (++arrivals_ >= size() && !is_learning_) arrivals_ = strays_ = cramped_ = 0;
  Facts& facts = facts_[chunk];
  if (is_recent(chunk)) evictability_.note_delivery(chunk);
  if (experts_.owns(chunk)) return experts_.on_ready(chunk);
  if (facts.position == nowhere) {
    add_to_clock(chunk);
    return false;
  }
  if (!facts.is_pinned && !is_around_cursor(chunk) && !facts.is_consumed) add_to_clock(chunk);
  if (facts.touch_rank == nowhere) return false;
  if (facts.is_pinned) return true;
  if (++since_tripwire_ < std::max(ring_ / 8, 1u)) return true;
  since_tripwire_ = 0;
  return false;
}

// The cursor offers cyclic chunks again when it passes them; others are found by the clock.
void PinStream::on_refused(ChunkId chunk) {
  evictability_.note_refusal(chunk);
  const bool is_kept = experts_.owns(chunk) && experts_.keeps(chunk);
  if (facts_[chunk].position == nowhere && !is_kept) add_to_clock(chunk);
}

void PinStream::on_standstill() {
  is_at_standstill_ = true;
  evictability_.forget_refusals();
}

void PinStream::will_need(std::span<const ChunkId> chunks) {
  if (chunks.size() > table_.resident_max() / 2) {
    if (evictability_.touches() > 0) return;
    is_pass_expected_ = true;
    return begin_pass();
  }
  for (ChunkId chunk : chunks) {
    if (experts_.owns(chunk)) experts_.expect(chunk);
    advice_.push(chunk);
  }
}

// Nobody has touched anything yet, but will: reads from the beginning of the order, as far as there
// are slots, while the engine still sets itself up.
void PinStream::begin_pass() {
  if (has_cursor_ || order_.empty()) return;
  jump_to(0);
  ahead_max_ = table_.resident_max();
}

void PinStream::consumed(std::span<const ChunkId> chunks) {
  for (ChunkId chunk : chunks) {
    if (!experts_.owns(chunk)) list_consumed(chunk);
  }
}

// ---- Actions ----

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
