// The median of some measurements. On a machine that others use it says more than the average.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "pager/base/assert.h"

namespace weightpager {

/// For an even count it is the upper one of the two values in the middle. Requires at least one
/// value.
template <typename Value>
Value median(std::vector<Value> values) {
  WP_ASSERT(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace weightpager
