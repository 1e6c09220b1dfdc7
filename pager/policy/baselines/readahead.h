// `readahead`: what an operating system does for a file that is read in order.
//
// A fault reads a few chunks ahead in file order. If the next fault lies where the last reading
// ended, it reads twice as far, up to a maximum. A fault elsewhere begins anew. The first chunk
// that was read ahead is a tripwire: touching it starts the next reading, so that a steady reader
// never waits for a whole reading. The least recently used chunk goes first (newer_half.h). It
// knows files, not layers, and nothing of a pass that will come round. Cost: O(1) an event.
#pragma once

#include <vector>

#include "pager/policy/baselines/newer_half.h"
#include "pager/policy/baselines/policy_base.h"

namespace weightpager::policy {

class Readahead final : public PolicyBase {
 public:
  using PolicyBase::PolicyBase;

 private:
  void use_order() override;
  void touched(ChunkId chunk) override;
  bool arrived(ChunkId chunk) override { return chunk != marker_; }
  ChunkId next_hold() override { return newer_half_.next_hold(table_); }
  ChunkId next_ahead() override;

  void read_from(ChunkId begin, uint32_t chunks);

  NewerHalf newer_half_;
  // By chunk: whether the order names it. Numbers behind a file's last chunk may belong to no file.
  std::vector<bool> is_known_;
  // Being read ahead: [next_, end_).
  ChunkId next_ = 0;
  ChunkId end_ = 0;
  ChunkId marker_ = window::no_chunk;
  uint32_t length_ = 0;  // chunks of the last reading ahead
};

}  // namespace weightpager::policy
