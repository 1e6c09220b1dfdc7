// How long a search may take. What is found by then is the answer, with what was proved of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>

namespace weightpager {

class TimeLimit {
 public:
  /// Never over.
  TimeLimit() = default;
  explicit TimeLimit(double seconds)
      : lasts_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        end_(Clock::now() + *lasts_) {}

  /// As long from now on: what comes before a search, such as measuring, is not part of it.
  TimeLimit anew() const {
    TimeLimit limit = *this;
    if (lasts_) limit.end_ = Clock::now() + *lasts_;
    return limit;
  }

  /// Called whenever a search looks at the clock: it is alive.
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
