// How fast a disk is, and how late: what reads of all lengths take.
//
// Problem. Plans want the disk's speed and its latency. Beside kernels neither can be seen: nobody
// has a use for a read's end before a kernel ends, so nobody looks (io::Reader::doze). (Two
// processors, 2026-11-25: of a pass over ResNet-152 every second read of 1 MiB seemed to take 7 ms,
// some 40, and the disk to give 0.6 GB/s instead of 3.4.)
//
// Idea. So nothing computes meanwhile. The disk is busy in stretches, from a read that begins while
// no other is under way until none is any more. A stretch takes a latency and its bytes' time, so a
// line through stretches of all lengths tells both apart. (A read alone does not: it is often the
// first of some that begin together and share the disk.) Each stretch is read some times, for a
// disk that others use, too, is slow now and then.
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

/// In which at least one read was under way, from its beginning to its end.
struct BusyStretch {
  pipeline::TimeSpan when;
  uint64_t bytes = 0;

  uint64_t took_ns() const { return when.finish_ns - when.start_ns; }
};

struct DiskLine {
  double bytes_per_s = 0;
  /// Of a stretch, beside what its bytes take at that speed.
  double latency_ns = 0;

  double took_ns(uint64_t bytes) const {
    return latency_ns + static_cast<double>(bytes) / bytes_per_s * 1e9;
  }
};

/// The line nearest to all stretches, of which there is at least one. Without a latency if they
/// are nearly alike, or say that it is less than none, or that more bytes take less time.
DiskLine fit_disk(std::span<const BusyStretch> stretches);

/// By reading these units of the file, some of which have bytes, as a pipeline reads them. Fails if
/// they cannot be read.
Result<DiskLine> measure_disk(const std::string& weights_path,
                              std::span<const pipeline::UnitBytes> units);

}  // namespace weightpager::infer
