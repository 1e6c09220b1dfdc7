// The time limit of a search. At the limit, the search returns the best result so far and the
// bounds that it has proved.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>

namespace weightpager {

class TimeLimit {
 public:
  /// Never ends.
  TimeLimit() = default;
  explicit TimeLimit(double seconds)
      : lasts_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        end_(Clock::now() + *lasts_) {}

  /// The same time, from now on: work before a search, such as measuring, does not count.
  TimeLimit anew() const {
    TimeLimit limit = *this;
    if (lasts_) limit.end_ = Clock::now() + *lasts_;
    return limit;
  }

  /// Called whenever a search looks at the clock, to show that it is alive.
  std::function<void()> on_look;

  bool is_over() const {
    if (on_look) on_look();
    return Clock::now() >= end_;
  }

  /// Infinite without a limit, 0 once it is over.
  double seconds_left() const {
    if (!lasts_) return std::numeric_limits<double>::infinity();
    return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::duration> lasts_;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace weightpager
