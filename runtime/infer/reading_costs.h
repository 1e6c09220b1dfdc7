// What reading a network's weights costs on this machine: how fast they come, and what reads take
// from the processors that compute.
//
// Problem. Drivers, interrupts and checksums take processor time that no thread's clock shows in
// full, and threads that meet at barriers all wait for the one that was interrupted.
//
// Idea. Kernels are measured alone, while nothing is read; then in the two-stage pipeline. Bytes
// come as fast as they did while the disk had something to do; and what kernels, and what lies
// between two of them though the next one's weights are there, take longer than alone is what
// reading has cost. So neither is mistaken for the other, whichever a pass waits for. With large
// pieces and with small ones: so what a read takes for being one more is told apart from what its
// bytes take. (ResNet-50, two processors, 2026-11-22: 0.09 ns a byte and 48 µs a read, so that a
// pass in pieces of 128 KiB loses 36 ms to its reads, and one in pieces of 2 MiB 12 ms.)
//
// And how long a read takes that begins while no other is under way: a ring that is nearly full
// waits for each of them.
//
// Cost: some dozen passes; a few seconds.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

/// What reads take from the processors that compute.
using plan::TakenByReads;

struct ReadingCosts {
  double bytes_per_s = 0;
  /// From a read's start, while others compute, to its end; less what its bytes take at that speed.
  uint64_t latency_ns = 0;
  TakenByReads taken;
};

/// A pass with reads beside its kernels: how much longer these took than alone.
struct PassesBeside {
  uint64_t bytes = 0;
  uint64_t reads = 0;
  double longer_ns = 0;
};

/// From passes of the same kernels with large pieces and with small ones. Of what the small ones
/// say that cannot be (that more reads take less, or that they took it all from large ones, too)
/// the nearest that can.
TakenByReads taken_by_reads(const PassesBeside& large, const PassesBeside& small);

/// By some passes over a .weights file or a packed one, in some MiB of memory, or that of all
/// weights if they are few. Fails if they cannot be read, and where no layer is large enough to say
/// anything.
Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads);

}  // namespace weightpager::infer
