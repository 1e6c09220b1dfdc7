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
// Both measurements run without the arena overlay (pipeline/arena_overlay.h), because that joins
// small pieces into large ones. How fast bytes come, and how late, is measured apart (disk_line.h);
// who computes sees a read's end only after a kernel, so a read counts for as long as the disk
// takes for it.
//
// Cost: some dozen passes; a few seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/infer/disk_line.h"
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

/// Of one inference in `two_stage`, in order; none longer than the disk takes for its bytes.
std::vector<BusyStretch> busy_stretches(const pipeline::Timeline& times,
                                        std::span<const pipeline::UnitBytes> units,
                                        const DiskLine& disk);

/// How much of them lies beside kernels, or beside what lies between two of them though the second
/// one's weights are there.
uint64_t beside_kernels_ns(std::span<const BusyStretch> stretches, const pipeline::Timeline& times);

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
