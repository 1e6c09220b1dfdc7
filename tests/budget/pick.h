// A number for a property test: from the whole range from the first case on. (By itself rapidcheck
// begins with small ranges, and half of a hundred networks would have three layers.)
#pragma once

#include <rapidcheck.h>

namespace weightpager::budget {

/// At least `low`, below `end`.
template <typename Number>
Number pick(Number low, Number end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(low, end));
}

}  // namespace weightpager::budget
