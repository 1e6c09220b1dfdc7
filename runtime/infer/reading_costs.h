// What reading a network's weights costs on this machine: how fast they come, and what each byte
// takes from the processors that compute.
//
// Problem. Drivers, interrupts and checksums take processor time that no thread's clock shows in
// full, and threads that meet at barriers all wait for the one that was interrupted.
//
// Idea. Kernels are measured alone, while nothing is read; then in the two-stage pipeline. Bytes
// come as fast as they did while the disk had something to do; and what kernels, and what lies
// between two of them though the next one's weights are there, take longer than alone is what
// reading has cost. So neither is mistaken for the other, whichever a pass waits for.
//
// Cost: some dozen passes; a second or two.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

struct ReadingCosts {
  double bytes_per_s = 0;
  double processor_ns_per_byte = 0;
};

/// By some passes over a .weights file or a packed one, in some MiB of memory, or that of all
/// weights if they are few. Fails if they cannot be read, and where no layer is large enough to say
/// anything.
Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads);

}  // namespace weightpager::infer
