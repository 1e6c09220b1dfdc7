// Any records, for properties of plans.
#pragma once

#include <rapidcheck.h>

#include <vector>

#include "runtime/memory/usage.h"

namespace weightpager::memory {

/// At most `count_max` tensors in so few operations that many are live at once. Sizes repeat, as in
/// networks.
inline rc::Gen<std::vector<TensorUsage>> any_records(int count_max, int operations = 20) {
  const auto record = rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(0, operations), rc::gen::inRange(0, operations / 2),
                     rc::gen::oneOf(rc::gen::inRange(1, 6), rc::gen::inRange(1, 1000))),
      [](const std::tuple<int, int, int>& it) {
        const auto [first, length, size] = it;
        return TensorUsage{static_cast<uint32_t>(first), static_cast<uint32_t>(first + length),
                           static_cast<uint64_t>(size)};
      });
  // rapidcheck begins with small numbers; here all cost the same.
  return rc::gen::resize(100, rc::gen::mapcat(rc::gen::inRange(0, count_max + 1), [=](int count) {
                           return rc::gen::container<std::vector<TensorUsage>>(
                               static_cast<size_t>(count), record);
                         }));
}

}  // namespace weightpager::memory
