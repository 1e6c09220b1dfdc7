// Learns where a pass comes back to chunks that it visited long before.
//
// Problem. Two tensors may share a chunk, or one tensor may be used twice (an embedding that is the
// last layer's matrix, too). Where the engine does much else in between, the chunk has been evicted
// by then. An order that has the chunk once lets the engine wait for it in every pass, and takes
// the touch for a sign that the engine is somewhere else.
//
// Idea. A touch of an absent chunk far from all its visits is noted, with the chunk that the cursor
// had come to. If the same happens near the same place a whole pass later, a visit belongs there.
// It is added to the order when the pass ends. Passes are told apart by how far the engine has gone
// on, not by the end of the order: the place may lie just there, before it in one pass and behind
// it in the next. Of a chunk that is not part of the order at all (rows of an embedding, for all
// that is known) three passes have to say the same, and at least 16 MiB of them: rows that many
// tokens have in common are no matrix that every pass goes through. What lies beside chunks of the
// order belongs to them.
//
// So are chunks between the strips of threads found: the thread behind begins with one when the
// matrix begins, and the thread before comes to it at its end, by when it may have been evicted.
//
// Knows the order that is assumed, and does not change it. Cost: O(1) a touch; some 28 bytes a
// chunk of the table. Only `reset` allocates, and `take_found` where visits were found.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/units.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class Revisits {
 public:
  /// What a touch far from all visits of its chunk is.
  enum class Kind {
    first,      // no such touch in the pass before, or once more in this one
    found,      // one near this place in the passes before: a visit that the order lacks
    elsewhere,  // the last one was at another place
  };

  /// `order`, the one that is assumed, outlives this.
  Revisits(const PassOrder& order, uint64_t chunk_bytes)
      : order_(order), matrix_chunks_min_(static_cast<uint32_t>(matrix_bytes_min / chunk_bytes)) {}

  /// Forgets everything. The table has `chunks` chunks.
  void reset(uint32_t chunks);

  /// The engine touched the chunk far from its visits, when it was at `position`. Positions up to
  /// `apart` from each other count as one place.
  Kind note(ChunkId chunk, uint32_t position, uint32_t apart);
  /// The engine has gone on by so many visits.
  void go_on(uint64_t visits) { gone_ += visits; }

  /// Takes the visits that the order lacks.
  std::vector<PassOrder::Visit> take_found();

 private:
  static constexpr uint64_t matrix_bytes_min = 16 * MiB;

  /// The last such touch of a chunk.
  struct Note {
    uint64_t gone = 0;              // how far the engine had gone on
    uint32_t passes = 1;            // in so many passes in a row near one place
    ChunkId at = window::no_chunk;  // which chunk the cursor had come to
  };

  bool is_beside_order(ChunkId chunk) const;
  bool may_be_last_pass(uint64_t gone) const;
  bool is_one_pass(uint64_t gone) const;

  const PassOrder& order_;
  const uint32_t matrix_chunks_min_;
  uint64_t gone_ = 0;        // visits, in all
  std::vector<Note> notes_;  // by chunk
  std::vector<PassOrder::Visit> found_;
  std::vector<bool> is_found_;  // by chunk
};

}  // namespace weightpager::policy
