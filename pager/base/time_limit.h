// How long a search may take. What is found by then is the answer, with what was proved of it.
#pragma once

#include <chrono>

namespace weightpager {

class TimeLimit {
 public:
  /// Never over.
  TimeLimit() = default;
  explicit TimeLimit(double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  bool is_over() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace weightpager
