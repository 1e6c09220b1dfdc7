// What reading a network's weights costs on this machine: how fast they come, and what reads take
// from the processors that compute.
//
// Problem. Drivers, interrupts and checksums take processor time that no thread's clock shows in
// full, and threads that meet at barriers all wait for the one that was interrupted.
//
// Idea. Kernels are measured alone, while nothing is read; then in the two-stage pipeline. What
// kernels, and what lies between two of them though the next one's weights are there, take longer
// than alone is what reading has cost. Reads cost nothing while kernels wait: of what reads beside
// kernels cost, what all would cost is known. With large pieces and with small ones: so what a read
// takes for being one more is told apart from what its bytes take. (ResNet-50, two processors,
// 2026-11-22: 0.09 ns a byte and 48 µs a read, so that a pass in pieces of 128 KiB loses 36 ms to
// its reads, and one in pieces of 2 MiB 12 ms.)
//
// How fast bytes come, and how late: the disk is busy in stretches, from a read that begins while
// no other is under way until none is any more. A stretch takes a latency and its bytes' time, so a
// line through stretches of all lengths tells both apart. (A read alone does not: it is often the
// first of some that begin together and share the disk.) These stretches are those of a pipeline
// with a driver of its own (pipeline::Driver), as who computes sees a read's end only after a
// kernel.
//
// Cost: some dozen passes; a few seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/timeline.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

/// What reads take from the processors that compute.
using plan::TakenByReads;

struct ReadingCosts {
  double bytes_per_s = 0;
  /// Of a stretch in which the disk is busy, beside what its bytes take at that speed.
  uint64_t latency_ns = 0;
  TakenByReads taken;
};

/// In which at least one read was under way, from its beginning to its end.
struct BusyStretch {
  pipeline::Span when;
  uint64_t bytes = 0;
};

/// Of one inference in `two_stage`, in order.
std::vector<BusyStretch> busy_stretches(const pipeline::Timeline& times,
                                        std::span<const pipeline::UnitBytes> units);

/// How much of them lies beside kernels, or beside what lies between two of them though the second
/// one's weights are there.
uint64_t beside_kernels_ns(std::span<const BusyStretch> stretches, const pipeline::Timeline& times);

struct DiskLine {
  double bytes_per_s = 0;
  double latency_ns = 0;
};

/// The line nearest to all stretches, of which there is at least one. Without a latency if they
/// are nearly alike, or say that it is less than none, or that more bytes take less time.
DiskLine fit_disk(std::span<const BusyStretch> stretches);

/// Passes with reads beside their kernels, on average: how much longer these take than alone if
/// they run beside all of the reads.
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
