// Intermediate tensors of networks that Pisarchyk & Lee (2020) measured: 32-bit floats, batch 1,
// channels rounded up to 4. Made from the networks' published structure; records/*.json.
//
// Of Inception v3 the paper's graph is not known; these are two readings of the published one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "runtime/memory/records_file.h"

namespace weightpager::memory {

inline std::vector<TensorUsage> published(const std::string& name) {
  auto records = read_records(std::string(WP_TEST_RECORDS) + "/" + name + ".json");
  if (records) return std::move(*records);
  ADD_FAILURE() << records.error().message;
  return {};
}

/// As the paper's tables have it: thousandths of a MiB.
inline long thousandths_of_mebibytes(uint64_t bytes) {
  return std::lround(1000 * static_cast<double>(bytes) / static_cast<double>(MiB));
}

}  // namespace weightpager::memory
