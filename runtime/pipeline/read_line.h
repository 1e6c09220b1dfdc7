// Reads that the schedule has asked for and the reader has not begun.
//
// What is under way at once shares the disk and ends at about the same time: the unit that is
// waited for comes as late as the last one. So no more is under way than keeps a disk busy
// (io::device_limits has figures), unless it is a single unit.
#pragma once

#include <cstdint>
#include <deque>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

class ReadLine {
 public:
  static constexpr uint32_t reads_max = 32;
  static constexpr uint64_t bytes_under_way_max = 4 * MiB;
  /// While nothing computes before the first of them is here.
  static constexpr uint64_t first_bytes_under_way_max = 256 * KiB;

  struct UnitRead {
    UnitNumber unit = 0;
    uint64_t length_bytes = 0;
    Place to;
  };

  void put(const UnitRead& read) { line_.push_back(read); }
  bool is_empty() const { return line_.empty(); }
  void clear() { line_.clear(); }

  /// Whether the first in line may begin now.
  bool may_take(uint64_t under_way_max_bytes = bytes_under_way_max) const {
    if (line_.empty() || reads_ == reads_max) return false;
    return reads_ == 0 || bytes_under_way_ + line_.front().length_bytes <= under_way_max_bytes;
  }
  /// It is under way from now on.
  UnitRead take() {
    WP_ASSERT(may_take(UINT64_MAX));
    const UnitRead read = line_.front();
    line_.pop_front();
    ++reads_;
    bytes_under_way_ += read.length_bytes;
    return read;
  }
  /// One of this length is over.
  void on_finished(uint64_t length_bytes) {
    --reads_;
    bytes_under_way_ -= length_bytes;
  }

 private:
  std::deque<UnitRead> line_;
  uint32_t reads_ = 0;  // under way
  uint64_t bytes_under_way_ = 0;
};

}  // namespace weightpager::pipeline
