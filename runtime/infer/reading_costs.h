// Measures what reading a network's weights costs on this machine: the disk's speed, and the time
// that reads take from the processors that compute.
//
// Problem. Drivers, interrupts and checksums take processor time that no thread's clock shows in
// full. Threads that meet at a barrier all wait for the thread that was interrupted.
//
// Idea. Kernels are measured alone, while nothing is read, and then in the two-stage pipeline.
// There they take longer, and so do the gaps between two kernels when the second one's weights are
// there already: reading costs this difference. Reads cost nothing while kernels wait. So the cost
// of the reads beside kernels is measured, and scaled to the cost if all reads were beside kernels.
// Measuring with large pieces and with small ones separates the cost of each read from the cost of
// each byte. (ResNet-50, two processors, 2026-11-22: 0.09 ns a byte and 48 µs a read, so a pass in
// pieces of 128 KiB loses 36 ms to its reads, and a pass in pieces of 2 MiB loses 12 ms.)
//
// Both measurements run without the arena overlay (pipeline/arena_overlay.h), because that joins
// small pieces into large ones. The disk's speed and latency are measured separately (disk_line.h).
// The thread that computes notices a read's end only after a kernel, so a read counts for no longer
// than the disk takes for it.
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

/// The processor time that reads take from kernels.
using plan::TakenByReads;

struct ReadingCosts {
  double bytes_per_s = 0;
  /// The time of a stretch in which the disk is busy, less the time that its bytes take at that
  /// speed.
  uint64_t latency_ns = 0;
  TakenByReads taken;
};

/// The stretches of one inference in `two_stage`, in order. None is longer than the disk takes for
/// its bytes.
std::vector<BusyStretch> busy_stretches(const pipeline::Timeline& times,
                                        std::span<const pipeline::UnitBytes> units,
                                        const DiskLine& disk);

/// How much of the stretches lies beside kernels, or beside gaps between two kernels when the
/// second one's weights are there already.
uint64_t beside_kernels_ns(std::span<const BusyStretch> stretches, const pipeline::Timeline& times);

/// An average pass with reads beside its kernels. `longer_ns`: how much longer the kernels would
/// take than alone if they ran beside all of the reads.
struct PassesBeside {
  uint64_t bytes = 0;
  uint64_t reads = 0;
  double longer_ns = 0;
};

/// Calculates the costs from passes of the same kernels with large pieces and with small ones. The
/// cost of a read is limited to what is possible: it is not negative, and the reads of the large
/// pieces cost at most what the large pieces cost as a whole.
TakenByReads taken_by_reads(const PassesBeside& large, const PassesBeside& small);

/// Measures with some passes over a .weights file or a packed file. This takes some MiB of memory,
/// or for a small network the memory of all weights. Fails if the weights cannot be read, or if no
/// layer is large enough to measure the speed.
Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads);

}  // namespace weightpager::infer
