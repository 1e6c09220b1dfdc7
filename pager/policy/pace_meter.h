// How long the engine computes from each chunk of the order, measured by its touches.
//
// Problem. Only one touch every few chunks is seen, threads touch chunks out of step, and the
// engine may have waited for a read between two touches.
//
// Idea. The time since the last touch that was seen, less waiting, is spread over the chunks that
// lie between. Touches that lie a little behind the last one come from threads that are late, and
// say nothing. After two passes the meter reports a first pace. Two passes later it reports a
// second one, because by then the engine no longer waits in the same places. A chunk's time is
// averaged over the passes, and neighbours are reported with their common mean. A pace from an
// earlier run counts as the first one: it is usable at once, and two passes show whether it still
// holds.
//
// Knows the order and the chunk table, and changes neither; allocates when the order changes or a
// pace is reported. Cost: O(1) amortised a chunk that the engine passes; 4 bytes a chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/chunk_order.h"
#include "pager/policy/pass_order.h"

namespace weightpager::policy {

class PaceMeter {
 public:
  /// `table` and `order`, the one in use, outlive the meter.
  PaceMeter(const ChunkTable& table, const PassOrder& order) : table_(table), order_(order) {}

  /// Some visits were taken out of the order, or added to it.
  void order_edited();
  /// Another order is in use: what was measured is forgotten.
  void order_replaced();
  /// Begins with what an earlier run has learned. Returns a pace for the order in use. A chunk that
  /// the access profile lacks gets the time of the chunk before it.
  std::vector<float> begin_with(const AccessProfile& access_profile);

  /// The time of the events that follow, by the driver's clock.
  void set_time(uint64_t now_ns) { now_ns_ = now_ns; }
  /// The engine touched the chunk when its state was `state`. Returns true if `pace()` is now
  /// better than the last one that was reported.
  bool note_touch(ChunkId chunk, ChunkState state);
  /// A read of the chunk has ended.
  void note_arrival(ChunkId chunk);

  /// The computing time of each position, in ns.
  std::vector<float> pace() const;

 private:
  bool note_visit(uint32_t steps);
  void spread(uint32_t steps, uint64_t computed_ns);
  void note_waiting(ChunkId chunk, ChunkState state);

  const ChunkTable& table_;
  const PassOrder& order_;

  uint64_t now_ns_ = 0;
  ChunkId waited_for_ = window::no_chunk;
  uint64_t waiting_since_ns_ = 0;
  uint64_t waited_ns_ = 0;

  std::vector<float> computed_ns_;  // by chunk, smoothed over the passes
  uint64_t passed_ = 0;             // chunks that the engine has passed since the order changed
  uint64_t averaged_from_ = 0;      // below this count, a measurement is not averaged
  bool has_position_ = false;
  uint32_t position_ = 0;  // of the last touch that went on
  uint64_t position_computed_ns_ = 0;
  uint32_t paces_told_ = 0;
};

}  // namespace weightpager::policy
