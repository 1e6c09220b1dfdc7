// Learns where a pass comes back to chunks that it visited long before.
//
// Problem. Two tensors may share a chunk, or one tensor may be used twice (an embedding that is the
// last layer's matrix, too). Where the engine does much else in between, the chunk has been evicted
// by then. An order that has the chunk once lets the engine wait for it in every pass, and takes
// the touch for a sign that the engine is somewhere else.
//
// Idea. A touch of an absent chunk far from all its visits is noted, with the chunk that the cursor
// had come to. If the same happens near the same place of a later pass, a visit belongs there. It
// is added to the order when the pass ends.
//
// Knows the order that is assumed, and does not change it. Cost: O(1) a touch; 9 bytes a chunk of
// the table. Only `reset` allocates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class Revisits {
 public:
  /// What a touch far from all visits of its chunk is.
  enum class Kind {
    first,      // nothing is known of this chunk
    found,      // the second one near this place: a visit that the order lacks
    elsewhere,  // the last one was at another place
  };

  /// `order`, the one that is assumed, outlives this.
  explicit Revisits(const PassOrder& order) : order_(order) {}

  /// Forgets everything. The table has `chunks` chunks.
  void reset(uint32_t chunks);

  /// The engine touched the chunk far from its visits, when it was at `position`. Positions up to
  /// `apart` from each other count as one place.
  Kind note(ChunkId chunk, uint32_t position, uint32_t apart);
  /// A pass is over.
  void end_pass() { ++pass_; }

  /// Visits that the order lacks.
  std::span<const PassOrder::Visit> found() const { return found_; }
  /// They are part of the order now.
  void forget_found();

 private:
  /// The last such touch of a chunk.
  struct Note {
    uint32_t pass = 0;
    ChunkId at = window::no_chunk;  // which chunk the cursor had come to
  };

  const PassOrder& order_;
  uint32_t pass_ = 0;
  std::vector<Note> notes_;  // by chunk
  std::vector<PassOrder::Visit> found_;
  std::vector<bool> is_found_;  // by chunk
};

}  // namespace weightpager::policy
