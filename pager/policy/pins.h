// Which chunks of the order stay in the window for good.
//
// Reads of the chunks that do not stay hide under the engine's computing. So pins are spread evenly
// through the order. Where the engine's pace is known, they are spread so that reads of streamed
// chunks need the same share of the computing time everywhere. Chunks that the user wants to stay
// are pinned first, then chunks that a pass would read more than once, although some are held from
// one visit until the next (held_visits.h).
//
// Cost: O(N log N) to choose them; a bit and a byte for each chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/held_visits.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class Pins {
 public:
  /// Nothing is pinned. `order` says which chunks shall stay, and which are revisited; the table
  /// has `chunks` chunks.
  void reset(const ChunkOrder& order, uint32_t chunks);
  /// The order will be quite another one: chunks take turns anew, evenly along it. Otherwise pins
  /// stay where they are, as far as possible.
  void forget_turns();
  /// Pins `count` chunks of the order, and no others. What is streamed stays for about `near`
  /// positions, or until the next visit if that one is held for.
  void choose(const PassOrder& order, const HeldVisits& held, uint32_t count, uint32_t near);
  bool contains(ChunkId chunk) const { return is_pinned_[chunk]; }
  /// So many chunks of the order shall stay.
  uint32_t kept_chunks_of(const PassOrder& order) const;
  /// Whether the chunk is one of those that shall stay.
  bool is_kept(ChunkId chunk) const { return classes_[chunk] == kept; }

 private:
  // Chunks of a lower class are pinned before others.
  enum Class : uint8_t { kept, revisited, other };

  static constexpr double no_turn = -1;

  void take_turns(const PassOrder& order);

  std::vector<bool> is_pinned_;  // by chunk
  std::vector<Class> classes_;   // by chunk
  std::vector<double> turns_;    // by chunk, from 0 to 1: those with the least are pinned first
};

}  // namespace weightpager::policy
