#include "pager/loop/waiters.h"

#include "pager/base/assert.h"

namespace weightpager {

using window::ChunkId;
using window::ChunkState;

void Waiters::resize(uint32_t chunks) {
  waits_.resize(chunks);
  to_retry_.reserve(chunks);
}

void Waiters::begin(ChunkId chunk, ChunkState touched_in, uint64_t now_ns) {
  WP_ASSERT(!are_at(chunk));
  waits_[chunk] = {true, touched_in, now_ns};
  if (chunks_++ == 0) stalled_since_ns_ = shared_out_ns_ = now_ns;
}

// Of the time with threads waiting, what has passed since another chunk's wait ended goes to this
// chunk's layer.
void Waiters::end(const ServedFile& served, ChunkId chunk, uint64_t now_ns) {
  WP_ASSERT(are_at(chunk));
  Wait& wait = waits_[chunk];
  wait.is_waited_for = false;
  telemetry::Histogram& histogram =
      wait.touched_in == ChunkState::absent    ? telemetry_.wait_demand_ns
      : wait.touched_in == ChunkState::reading ? telemetry_.wait_late_ns
                                               : telemetry_.wait_tripwire_ns;
  histogram.add(now_ns - wait.since_ns);
  served.layers->add_stall(served.layers->layer_of(chunk - served.first_chunk),
                           now_ns - shared_out_ns_);
  shared_out_ns_ = now_ns;
  if (--chunks_ == 0) telemetry::add(telemetry_.stall_ns, now_ns - stalled_since_ns_);
}

ChunkId Waiters::take_retry() {
  const ChunkId chunk = to_retry_.front();
  to_retry_.erase(to_retry_.begin());
  return chunk;
}

}  // namespace weightpager
