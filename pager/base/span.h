// A part of the address space, as numbers: comparing pointers into different objects is not
// defined.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weightpager {

/// [begin, end); empty where the end is not behind the beginning.
struct Span {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  bool is_empty() const { return end <= begin; }
  uint64_t length_bytes() const { return end - begin; }
  /// What lies in both.
  Span part_in(const Span& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
};

}  // namespace weightpager
