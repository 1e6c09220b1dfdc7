// The middle of some measurements: what says more than their average on a machine that others use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pager/base/assert.h"

namespace weightpager {

/// Of an even count, the upper one of the two in the middle. Requires a value.
template <typename Value>
Value median(std::vector<Value> values) {
  WP_ASSERT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace weightpager
