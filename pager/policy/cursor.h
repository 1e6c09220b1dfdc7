// The cursor: where in the order the engine is, what is to be read next, and what has been left
// behind.
//
// Problem. Touches of mapped chunks are not seen. Of the touches that are seen, most are ahead of
// the last one, some are behind it (threads share a matrix and work some MiB apart), and some are
// nowhere near (an engine looks at a tensor elsewhere). Each may say where the engine is.
//
// Idea. A touch a little behind the cursor says nothing new. A touch that is not too far ahead
// takes the cursor there, unless a chunk in between is not mapped: no engine passes such a chunk
// without a touch, so another thread touched too far ahead, or the order is a little wrong there. A
// second touch further on says that the chunk was left out. A touch far away is a stray, unless the
// next one goes on from there: then the engine has jumped. Three places move along the order, and
// across the end of a pass:
//
//     consumed_before ≤ cursor ≤ frontier
//
// Everything from the cursor to the frontier is in memory or has been asked for. Everything before
// `consumed_before` has been left behind for good. What lies between that and the cursor lingers: a
// thread may still use it. A chunk that is missing there was evicted too early, so chunks linger
// longer from then on, up to half of the ring.
//
// Knows the order and the chunk table, and changes neither. Cost: O(1) amortised a touch and a
// chunk that the engine passes. Allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/base/units.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

/// Threads of one matrix multiplication work at most so far apart, as a rule.
inline constexpr uint64_t threads_apart_bytes = 8 * MiB;
/// The longest ring, in chunks, where threads work further apart than that: half of the window, and
/// at most 128 MiB.
uint32_t widest_ring(uint32_t window_chunks, uint64_t chunk_bytes);

class Cursor {
 public:
  enum class Move { none, advance, jump };
  /// What a touch says about where the engine is.
  struct Sighting {
    Move move = Move::none;
    uint64_t place = 0;     // where the engine is now, unless `move` is none
    bool is_stray = false;  // far from where the engine should be
    bool is_early = false;  // the chunk was evicted too early, and not a moment ago
    // Chunks would have to linger for so long for this one to be there, which takes a longer ring.
    uint32_t linger_wanted = 0;
  };

  /// `table` and `order` outlive the cursor.
  Cursor(const ChunkTable& table, const PassOrder& order, uint64_t chunk_bytes);

  /// Forgets where the engine is.
  void forget();
  /// The ring has `chunks` chunks. `is_streaming`: some chunk of the order does not fit.
  void set_ring(uint32_t chunks, bool is_streaming);
  /// So many threads work side by side, each on a chunk of its own. Those that the ring has no
  /// chunk for do not count.
  void set_threads(uint32_t threads) {
    leap_of_absent_ = std::max(std::min(threads, ring_), chunks_in(threads_apart_bytes));
  }

  /// Whether it is known where the engine is. Most functions below require that.
  bool is_set() const { return is_set_; }
  uint64_t place() const { return cursor_; }
  uint32_t position() const { return static_cast<uint32_t>(cursor_ % order_.size()); }
  /// How many passes end before the engine comes to `place`.
  uint64_t passes_until(uint64_t place) const;
  /// Whether a visit of the chunk lies between the first chunk that lingers and the frontier. False
  /// if it is not known where the engine is.
  bool is_around(ChunkId chunk) const;

  /// What a touch of a chunk of the order says. `is_absent`: the chunk is absent. Does not move the
  /// cursor.
  Sighting see(ChunkId chunk, bool is_absent);
  /// The next place of a chunk of the order, from the cursor on. If it is not known where the
  /// engine is, a place in the second pass, so that there are places a little behind it.
  uint64_t place_of(ChunkId chunk) const;
  /// The engine went on to `place`.
  void advance(uint64_t place);
  /// The engine is at `place` now, which may lie behind the cursor: an engine that takes layers in
  /// an order of its own goes back and on. Nothing has been asked for from there on. The caller
  /// offers everything before it for eviction; `next_consumed` does not.
  void jump(uint64_t place);

  /// The next chunk that has been left behind for good and is to be offered for eviction, or
  /// no_chunk; each one once.
  ChunkId next_consumed();
  /// The caller offers all that has been left behind; `next_consumed` does not.
  void skip_consumed() { offered_before_ = consumed_before_; }
  /// The first absent chunk from the frontier on, or no_chunk if the next pass's consumed chunks
  /// are reached before one is found. Returns the same chunk until `note_asked`.
  ChunkId next_absent();
  /// The chunk of `next_absent` is being read.
  void note_asked() { ++frontier_; }
  /// The chunk goes: if it had been asked for, it has to be asked for again.
  void note_evicted(ChunkId chunk);
  /// The chunk nearest to the frontier, and ahead of the cursor, for which `is_it(chunk)` is true,
  /// or no_chunk.
  template <typename IsIt>
  ChunkId find_farthest(IsIt is_it) const;

 private:
  static constexpr uint32_t nowhere = PassOrder::nowhere;

  uint32_t chunks_in(uint64_t bytes) const { return static_cast<uint32_t>(bytes / chunk_bytes_); }
  uint32_t forward_distance(ChunkId chunk) const { return order_.ahead(chunk, position()); }
  uint32_t backward_distance(ChunkId chunk) const { return order_.behind(chunk, position()); }
  /// Chunks from this place up to the cursor may still be in use.
  uint64_t lingers_from() const { return cursor_ - std::min<uint64_t>(linger_, cursor_); }
  bool linger_longer(uint32_t backward);
  bool goes_on(uint64_t place);
  /// The first place from `from` on whose chunk is not mapped although a pass makes that visit, or
  /// `end`.
  uint64_t next_unmapped(uint64_t from, uint64_t end) const;

  const ChunkTable& table_;
  const PassOrder& order_;
  const uint64_t chunk_bytes_;
  bool is_set_ = false;
  uint64_t cursor_ = 0;           // the engine is here, or a little further
  uint64_t frontier_ = 0;         // everything in [cursor_, frontier_) has been asked for
  uint64_t consumed_before_ = 0;  // everything before has been left behind for good
  uint64_t offered_before_ = 0;   // … and everything before this has been offered for eviction
  uint32_t ring_ = 0;
  uint32_t leap_of_absent_;       // so far beyond the frontier a thread may touch what is absent
  uint32_t linger_;               // chunks behind the cursor that may still be in use
  uint32_t linger_needed_ = 0;    // by what was found missing
  uint32_t candidate_ = nowhere;  // position of the last touch far from the cursor
  uint64_t leap_ = 0;             // place of the last touch that left out an untouched chunk
};

template <typename IsIt>
ChunkId Cursor::find_farthest(IsIt is_it) const {
  for (uint64_t place = frontier_; is_set_ && place-- > cursor_ + 1;) {
    const ChunkId chunk = order_.chunk_at(place);
    if (is_it(chunk)) return chunk;
  }
  return window::no_chunk;
}

}  // namespace weightpager::policy
