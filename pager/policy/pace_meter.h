// How long the engine computes from each chunk of the order, measured by its touches.
//
// Problem. Touches are seen only every few chunks, threads make them out of step, and between two
// of them the engine may have waited for a read.
//
// Idea. The time since the last touch that was seen, less waiting, is spread over the chunks that
// lie between. Touches that lie a little behind the last one come from threads that are late, and
// say nothing. After two passes a first pace is told, and two passes later a second one, when the
// engine no longer waits where it did; each chunk's time is averaged over the passes, and that of
// neighbours is told together. A pace that an earlier run has learned counts as the first one: it
// is right from the beginning, and two passes show whether it still is.
//
// Knows the order and the chunk table, and changes neither; allocates when the order changes or a
// pace is told. Cost: O(1) amortised a chunk that the engine passes; 4 bytes a chunk.
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

  /// Some chunks were taken out of the order.
  void order_shortened();
  /// Another order is in use: what was measured is forgotten.
  void order_replaced();
  /// Begins with what an earlier run has learned. Returns the pace of the order in use: chunks that
  /// the access profile does not know are computed from for as long as their neighbours.
  std::vector<float> begin_with(const AccessProfile& access_profile);

  /// What the driver's clock says at the events that follow.
  void set_time(uint64_t now_ns) { now_ns_ = now_ns; }
  /// A touch of the chunk, which had this state then. Returns whether a pace can be told that is
  /// better than the last one.
  bool note_touch(ChunkId chunk, ChunkState state);
  /// A read of the chunk has ended.
  void note_arrival(ChunkId chunk);

  /// By position, in ns.
  std::vector<float> pace() const;

 private:
  bool note_position(uint32_t position);
  void spread(uint32_t steps, uint64_t computed_ns);
  void note_waiting(ChunkId chunk, ChunkState state);

  const ChunkTable& table_;
  const PassOrder& order_;

  uint64_t now_ns_ = 0;
  ChunkId waited_for_ = window::no_chunk;
  uint64_t waiting_since_ns_ = 0;
  uint64_t waited_ns_ = 0;

  std::vector<float> computed_ns_;  // by chunk, smoothed over the passes
  uint64_t passed_ = 0;             // chunks that the engine has passed since then
  uint64_t averaged_from_ = 0;      // of passed_: the first look at each is not averaged
  bool has_position_ = false;
  uint32_t position_ = 0;  // of the last touch that went on
  uint64_t position_computed_ns_ = 0;
  uint32_t paces_told_ = 0;
};

}  // namespace weightpager::policy
