// Where the engine is, by its touches: the cursor that follows it, and the order that it teaches.
#include <algorithm>
#include <utility>

#include "pager/policy/pin_stream.h"
#include "pager/policy/reordered.h"

namespace weightpager::policy {
namespace {

// How far ahead of what was expected a touch may be and still count as going on, and how far behind
// at least.
constexpr uint64_t leap_bytes = 64 * MiB;
constexpr uint64_t behind_bytes_min = 16 * MiB;
constexpr uint64_t apart_bytes_max = 128 * MiB;
constexpr uint64_t ahead_bytes_first = 8 * MiB;
constexpr uint32_t order_lessons_max = 4;
// So many chunks, one after the other, that were touched before: the next pass has begun.
constexpr size_t again_max = 8;
// A thread that was given a chunk needs a moment to use it: as many deliveries are safe, and more
// where threads are far apart.
constexpr uint64_t recent_touches = 8;
constexpr uint64_t recent_touches_apart = 16;

}  // namespace

// ---- The cursor ----

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

}  // namespace weightpager::policy
