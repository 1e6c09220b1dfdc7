#include "pager/policy/cursor.h"

namespace weightpager::policy {
namespace {

// A touch up to `leap_bytes` beyond the frontier counts as going on. A touch behind the cursor says
// nothing new if it is no further behind than the ring is long, or than `behind_bytes_min` where
// that is more.
constexpr uint64_t leap_bytes = 64 * MiB;
constexpr uint64_t behind_bytes_min = 16 * MiB;
constexpr uint64_t widest_ring_bytes = 128 * MiB;

}  // namespace

uint32_t widest_ring(uint32_t window_chunks, uint64_t chunk_bytes) {
  return std::min(window_chunks / 2, static_cast<uint32_t>(widest_ring_bytes / chunk_bytes));
}

Cursor::Cursor(const ChunkTable& table, const PassOrder& order, uint64_t chunk_bytes)
    : table_(table),
      order_(order),
      chunk_bytes_(chunk_bytes),
      leap_of_absent_(chunks_in(threads_apart_bytes)),
      linger_(chunks_in(threads_apart_bytes)) {}

// Most of what was found to be needed stays needed; visits that were added to the order may have
// made the rest superfluous.
void Cursor::forget() {
  is_set_ = false;
  candidate_ = nowhere;
  linger_needed_ = linger_needed_ * 3 / 4;
}

// A short ring cannot afford to keep much of what is behind the cursor.
void Cursor::set_ring(uint32_t chunks, bool is_streaming) {
  ring_ = chunks;
  const uint32_t least = std::min(chunks_in(threads_apart_bytes), std::max(chunks / 4, 1u));
  if (is_streaming) linger_ = std::max(least, std::min(linger_needed_, chunks / 2));
}

uint64_t Cursor::passes_until(uint64_t place) const {
  const uint64_t now = cursor_ / order_.size();
  return is_set_ ? std::max(place / order_.size(), now) - now : 0;
}

bool Cursor::is_around(ChunkId chunk) const {
  if (!is_set_ || !order_.contains(chunk)) return false;
  return backward_distance(chunk) <= linger_ || forward_distance(chunk) < frontier_ - cursor_;
}

Cursor::Sighting Cursor::see(ChunkId chunk, bool is_absent) {
  if (!is_set_) return {Move::jump, place_of(chunk)};

  const uint32_t behind_max =
      std::min(std::max(ring_, chunks_in(behind_bytes_min)), order_.size() / 4);
  const uint32_t backward = backward_distance(chunk);
  if (backward <= behind_max) {
    candidate_ = nowhere;
    const bool is_too_early = backward > 0 && is_absent;
    const bool is_early = is_too_early && backward > chunks_in(threads_apart_bytes);
    const bool is_cramped = is_too_early && !linger_longer(backward);
    return {.is_early = is_early, .linger_wanted = is_cramped ? backward + 1 : 0};
  }

  const auto ahead = static_cast<uint32_t>(frontier_ - cursor_);
  const uint32_t leap_max = is_absent ? leap_of_absent_ : chunks_in(leap_bytes);
  const uint32_t forward = forward_distance(chunk);
  if (forward <= ahead + leap_max) {
    candidate_ = nowhere;
    return {goes_on(cursor_ + forward) ? Move::advance : Move::none, cursor_ + forward};
  }

  // Far from where the engine should be. Two such touches in a row that follow each other say that
  // the engine is there; a single one is a stray, or comes from a thread that is further behind
  // than the ring is long, but not further than the widest ring would be.
  const uint64_t place =
      backward < forward && backward <= cursor_ ? cursor_ - backward : cursor_ + forward;
  const auto position = static_cast<uint32_t>(place % order_.size());
  const bool is_cramped = is_absent && backward <= widest_ring(table_.resident_max(), chunk_bytes_);
  const bool is_confirmed = candidate_ != nowhere && position > candidate_ &&
                            position - candidate_ <= chunks_in(leap_bytes);
  candidate_ = position;
  return {.move = is_confirmed ? Move::jump : Move::none,
          .place = place,
          .is_stray = !is_cramped,
          .linger_wanted = is_cramped ? backward + 1 : 0};
}

// Whether a touch at `place`, ahead of the cursor, means that the engine has come there.
bool Cursor::goes_on(uint64_t place) {
  const uint64_t untouched = next_unmapped(cursor_ + 1, place);
  const bool is_confirmed = untouched < leap_ && leap_ < place;
  if (untouched == place || is_confirmed) return true;
  leap_ = place;
  return false;
}

uint64_t Cursor::next_unmapped(uint64_t from, uint64_t end) const {
  const auto is_passed = [&](uint64_t place) {
    return table_.state(order_.chunk_at(place)) == ChunkState::mapped ||
           order_.is_doubtful(static_cast<uint32_t>(place % order_.size()));
  };
  while (from < end && is_passed(from)) ++from;
  return from;
}

// Returns whether the ring had room for that.
bool Cursor::linger_longer(uint32_t backward) {
  const bool had_room = linger_ < ring_ / 2;
  linger_ = std::max(linger_, std::min({backward + 1, linger_ * 2, ring_ / 2}));
  linger_needed_ = linger_;
  consumed_before_ = std::min(consumed_before_, lingers_from());
  skip_consumed();
  return had_room;
}

uint64_t Cursor::place_of(ChunkId chunk) const {
  return is_set_ ? cursor_ + forward_distance(chunk)
                 : uint64_t{order_.size()} + order_.position(chunk);
}

void Cursor::advance(uint64_t place) {
  cursor_ = place;
  frontier_ = std::max(frontier_, cursor_);
  consumed_before_ = std::max(consumed_before_, lingers_from());
}

void Cursor::jump(uint64_t place) {
  is_set_ = true;
  cursor_ = frontier_ = place;
  leap_ = 0;
  consumed_before_ = lingers_from();
  skip_consumed();
  candidate_ = nowhere;
}

ChunkId Cursor::next_consumed() {
  if (!is_set_ || offered_before_ == consumed_before_) return window::no_chunk;
  return order_.chunk_at(offered_before_++);
}

ChunkId Cursor::next_absent() {
  const uint64_t limit = cursor_ + order_.size() - std::min(linger_, order_.size() / 2);
  for (; frontier_ < limit; ++frontier_) {
    const ChunkId chunk = order_.chunk_at(frontier_);
    if (table_.state(chunk) == ChunkState::absent) return chunk;
  }
  return window::no_chunk;
}

void Cursor::note_evicted(ChunkId chunk) {
  if (!is_set_ || !order_.contains(chunk)) return;
  frontier_ = std::min(frontier_, place_of(chunk));
}

}  // namespace weightpager::policy
