// The inferences that an executor runs: how many were asked for, started and ended, and when each
// of their units was read, copied and computed.
//
// Two inferences are under way at most: the one that computes, and the one whose units are read
// ahead. So two timelines are kept, which take turns. The one of the last inference that ended
// stays until another inference ends.
//
// Only the driver uses this, except for `last`: the thread that computes may read that timeline
// once it has learned of the inference's end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pager/base/assert.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

class InferencesUnderWay {
 public:
  explicit InferencesUnderWay(size_t units) : units_(units) {
    for (Timeline& it : timelines_) it.units.resize(units);
  }

  /// A caller asks for one more inference.
  void ask() { ++waiting_; }
  bool has_waiting() const { return waiting_ > 0; }
  /// Whether a caller waits for the end of an inference.
  bool is_wanted() const { return started_ + waiting_ > 0; }
  uint64_t ended() const { return ended_; }

  /// One of the waiting inferences starts now.
  void start() {
    WP_ASSERT(has_waiting());
    timelines_[slot(ended_ + started_)].start_ns = telemetry::monotonic_ns();
    --waiting_;
    ++started_;
  }
  /// The inference that was started first ends now.
  void end() {
    last_slot_ = slot(ended_++);
    timelines_[last_slot_].finish_ns = telemetry::monotonic_ns();
    --started_;
  }

  /// After a failure: all inferences that were asked for end without outputs.
  void forget_wanted() { started_ = waiting_ = 0; }
  /// The schedule is new: units are numbered from 0 again.
  void begin_anew() {
    ended_ = 0;
    first_slot_ = 1 - last_slot_;
  }

  UnitTimes& times(UnitNumber unit) { return timelines_[slot(unit / units_)].units[unit % units_]; }
  /// The timeline of the last inference that ended.
  const Timeline& last() const { return timelines_[last_slot_]; }

 private:
  // `inference` counts from the schedule's beginning.
  size_t slot(uint64_t inference) const { return (first_slot_ + inference) % timelines_.size(); }

  const size_t units_;
  std::array<Timeline, 2> timelines_;
  size_t first_slot_ = 0;
  size_t last_slot_ = 0;
  uint64_t ended_ = 0;    // inferences that have ended since the schedule was made
  uint32_t started_ = 0;  // inferences that were started and have not ended
  uint32_t waiting_ = 0;  // inferences that wait until they may start
};

}  // namespace weightpager::pipeline
