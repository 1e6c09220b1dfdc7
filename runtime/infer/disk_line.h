// Measures a disk's speed and its latency: the time that reads of all lengths take.
//
// Problem. Plans need the disk's speed and its latency. Beside kernels neither can be measured: the
// end of a read is of no use before a kernel ends, so it is noticed only then (io::Reader::doze).
// (Two processors, 2026-11-25: in a pass over ResNet-152 every second read of 1 MiB seemed to take
// 7 ms and some seemed to take 40 ms, and the disk seemed to give 0.6 GB/s instead of 3.4.)
//
// Idea. Nothing computes during the measurement. The disk is busy in stretches: a stretch begins
// with a read that begins alone, and ends when no read is under way any more. A stretch takes the
// latency and the time for its bytes, so a line through stretches of all lengths tells the two
// apart. (Single reads of a pipeline do not: a read is often the first of several that begin
// together and share the disk.) Each stretch is read several times, because a disk that others use
// as well is slow now and then.
//
// Cost: some passes over the weights without computing; half a second.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// A stretch of time in which at least one read was under way.
struct BusyStretch {
  pipeline::TimeSpan when;
  uint64_t bytes = 0;

  uint64_t took_ns() const { return when.finish_ns - when.start_ns; }
};

struct DiskLine {
  double bytes_per_s = 0;
  /// The time of a stretch less the time that its bytes take at that speed.
  double latency_ns = 0;

  double took_ns(uint64_t bytes) const {
    return latency_ns + static_cast<double>(bytes) / bytes_per_s * 1e9;
  }
};

/// The line nearest to all stretches, of which there is at least one. The latency is 0 if the
/// stretches are nearly alike, or if the line has a negative latency, or if more bytes take less
/// time on it.
DiskLine fit_disk(std::span<const BusyStretch> stretches);

/// Measures the disk: reads these units of the file as a pipeline reads them. At least one of them
/// has bytes. Fails if they cannot be read.
Result<DiskLine> measure_disk(const std::string& weights_path,
                              std::span<const pipeline::UnitBytes> units);

}  // namespace weightpager::infer
