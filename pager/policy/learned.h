// `learned`: pin-stream (with experts) that has seen how long the engine stays where.
//
// Layers of one size need not compute for the same time: an output matrix, a convolution with many
// pixels, a layer on another device. Reads of what is streamed hide under computing, so pins belong
// where little of it is. Two passes show how long the engine computes from each part of the order,
// waiting not counted; then the pins are spread by that, and once more two passes later, when it no
// longer waits where it did. The order itself is learned by pin-stream.
//
// The pace is part of the lesson for the next start, and takes the first two passes' place there:
// the pins are right from the beginning, and two passes show whether they still are.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/policy/pin_stream.h"

namespace weightpager::policy {

class Learned final : public PinStream {
 public:
  using PinStream::PinStream;

  void set_order(const ChunkOrder& order) override;
  void on_time(uint64_t now_ns) override { now_ns_ = now_ns; }
  void on_touch(ChunkId chunk, uint32_t offset_bytes) override;
  bool on_ready(ChunkId chunk) override;

 private:
  void order_changed(bool is_shortened) override;
  void begin_with(const Lesson& lesson);
  void note_place(uint32_t position);
  std::vector<float> seen_pace() const;

  uint64_t now_ns_ = 0;
  ChunkId waited_for_ = window::no_chunk;
  uint64_t waiting_since_ns_ = 0;
  uint64_t waited_ns_ = 0;

  std::vector<float> computed_ns_;  // by chunk, smoothed over the passes
  uint64_t seen_ = 0;               // positions that the engine has passed since then
  uint64_t averaged_from_ = 0;  // of seen_: the first look at each is not averaged with anything
  bool has_place_ = false;
  uint32_t place_ = 0;
  uint64_t place_computed_ns_ = 0;
  uint32_t lessons_ = 0;
};

}  // namespace weightpager::policy
