// Bytes and nanoseconds in the units that tables show them in.
#pragma once

#include <cstdint>

#include "pager/base/units.h"

namespace weightpager::tools {

constexpr double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(MiB);
}
/// Of `whole`, in hundredths; of nothing 0.
constexpr double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}
/// Of measured and of computed times.
constexpr double milliseconds(double ns) { return ns / 1e6; }
constexpr double milliseconds(uint64_t ns) { return milliseconds(static_cast<double>(ns)); }

}  // namespace weightpager::tools
