// What reading a network's weights costs on this machine: how fast they come, and what each byte
// takes from the processors that compute.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

struct ReadingCosts {
  double bytes_per_s = 0;
  double processor_ns_per_byte = 0;
};

/// By some passes over a .weights file or a packed one, layer by layer. Fails if it cannot be read,
/// and where no layer is large enough to say anything.
Result<ReadingCosts> measure_reading(const network::Network& network,
                                     const std::string& weights_path, int threads);

}  // namespace weightpager::infer
