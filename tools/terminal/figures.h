// Converts bytes and nanoseconds to the units of tables.
#pragma once

#include <cstdint>

#include "pager/base/units.h"

namespace weightpager::tools {

constexpr double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(MiB);
}
/// `part` in hundredths of `whole`; 0 if `whole` is 0.
constexpr double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}
/// For computed times (double) and for measured ones (uint64_t).
constexpr double milliseconds(double ns) { return ns / 1e6; }
constexpr double milliseconds(uint64_t ns) { return milliseconds(static_cast<double>(ns)); }
constexpr double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace weightpager::tools
