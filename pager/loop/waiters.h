// Threads that wait: at which chunks, since when, and how long that took in all.
//
// One thread or many that stand still at a chunk are one wait of that chunk. A chunk whose pages
// the kernel holds for a moment (a read that just ended) is shown a little later; until then it is
// to be retried. Times go to telemetry: each wait by what state the chunk was touched in, the time
// with any thread waiting as stall, and that time's parts to the layers that were waited for.
//
// Pure bookkeeping: the clock is the caller's. One thread; only `resize` allocates.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/loop/served_file.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

class Waiters {
 public:
  explicit Waiters(telemetry::Telemetry& telemetry) : telemetry_(telemetry) {}

  /// So many chunks there are now; those that are new have no waiters.
  void resize(uint32_t chunks);

  bool are_at(window::ChunkId chunk) const { return waits_[chunk].is_waited_for; }
  /// Chunks that threads wait at.
  uint32_t chunks() const { return chunks_; }
  uint64_t since_ns(window::ChunkId chunk) const { return waits_[chunk].since_ns; }

  /// A thread touched the chunk in that state. Requires !are_at(chunk).
  void begin(window::ChunkId chunk, window::ChunkState touched_in, uint64_t now_ns);
  /// The wait is over. Requires are_at(chunk).
  void end(const ServedFile& served, window::ChunkId chunk, uint64_t now_ns);

  /// The chunk is waited for, and could not be shown just now.
  void retry_later(window::ChunkId chunk) { to_retry_.push_back(chunk); }
  bool is_any_to_retry() const { return !to_retry_.empty(); }
  /// Takes the oldest chunk that is to be retried. Requires is_any_to_retry().
  window::ChunkId take_retry();
  uint32_t retries() const { return static_cast<uint32_t>(to_retry_.size()); }

 private:
  struct Wait {
    bool is_waited_for = false;
    window::ChunkState touched_in = window::ChunkState::absent;
    uint64_t since_ns = 0;
  };

  telemetry::Telemetry& telemetry_;
  std::vector<Wait> waits_;  // by chunk
  std::vector<window::ChunkId> to_retry_;
  uint32_t chunks_ = 0;
  uint64_t stalled_since_ns_ = 0;
  uint64_t shared_out_ns_ = 0;  // until when layers have their part of the stall
};

}  // namespace weightpager
