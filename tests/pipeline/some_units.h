// What tests of executors run: units of a file, in every pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pager/base/units.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

inline constexpr Pipeline pipelines[] = {Pipeline::preload, Pipeline::sequential,
                                         Pipeline::synchronous, Pipeline::asynchronous,
                                         Pipeline::two_stage};

/// Units of all sizes, some of none, one that ends where the file does, in the middle of a page.
inline std::vector<UnitBytes> some_units(uint64_t file_bytes) {
  std::vector<UnitBytes> units;
  uint64_t offset_bytes = 0;
  for (uint64_t pages = 1; offset_bytes < file_bytes; pages = pages * 7 % 61 + 1) {
    const uint64_t needed_bytes = std::min(pages * os_page_bytes, file_bytes - offset_bytes);
    units.push_back({.offset_bytes = offset_bytes,
                     .length_bytes = round_up(needed_bytes, os_page_bytes),
                     .needed_bytes = needed_bytes});
    if (units.size() % 5 == 0) units.push_back({});
    offset_bytes += needed_bytes;
  }
  return units;
}

}  // namespace weightpager::pipeline
