// A part of the address space, as numbers, because pointers into different objects must not be
// compared.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weightpager {

/// [begin, end); empty if the end is not behind the beginning.
struct Span {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  bool is_empty() const { return end <= begin; }
  uint64_t length_bytes() const { return end - begin; }
  /// The part that lies in both spans.
  Span part_in(const Span& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
};

}  // namespace weightpager
