// What tests of plans call the published networks.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "runtime/network/synthetic/published_activations.h"

namespace weightpager::memory {

inline std::vector<TensorUsage> published(const std::string& name) {
  return network::published_activations(name);
}

/// As the paper's tables have it: thousandths of a MiB.
inline long thousandths_of_mebibytes(uint64_t bytes) {
  return std::lround(1000 * static_cast<double>(bytes) / static_cast<double>(MiB));
}

}  // namespace weightpager::memory
