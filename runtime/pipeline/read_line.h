// Reads that the schedule has asked for and the reader has not begun.
//
// Reads that are under way at once share the disk and end at about the same time: the unit that a
// kernel waits for comes as late as the last one. So no more bytes are under way than keep a disk
// busy (io::device_limits has figures), unless they are a single unit.
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
  /// The limit while no kernel can run before the first of these units is here.
  static constexpr uint64_t first_bytes_under_way_max = 256 * KiB;

  struct UnitRead {
    UnitNumber unit = 0;
    uint64_t length_bytes = 0;
    Place to;
  };

  void put(const UnitRead& read) { line_.push_back(read); }
  bool is_empty() const { return line_.empty(); }
  void clear() { line_.clear(); }

  /// Whether the first read in line may begin now.
  bool may_take(uint64_t under_way_max_bytes = bytes_under_way_max) const {
    if (line_.empty() || reads_ == reads_max) return false;
    return reads_ == 0 || bytes_under_way_ + line_.front().length_bytes <= under_way_max_bytes;
  }
  /// Takes the first read out of the line. It is under way from now on.
  UnitRead take() {
    WP_ASSERT(may_take(UINT64_MAX));
    const UnitRead read = line_.front();
    line_.pop_front();
    ++reads_;
    bytes_under_way_ += read.length_bytes;
    return read;
  }
  /// A read of this length is over.
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
