// How long a search may take. What is found by then is the answer, with what was proved of it.
#pragma once

#include <chrono>
#include <functional>

namespace weightpager {

class TimeLimit {
 public:
  /// Never over.
  TimeLimit() = default;
  explicit TimeLimit(double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  /// Called whenever a search looks at the clock: it is alive.
  std::function<void()> on_look;

  bool is_over() const {
    if (on_look) on_look();
    return Clock::now() >= end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace weightpager
