// The end of a wait that consists of several sleeps: a signal or a short read ends a sleep, but not
// the wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weightpager::io {

class Deadline {
 public:
  /// The time counts from now. Negative: no limit.
  explicit Deadline(int64_t timeout_ns) : timeout_ns_(timeout_ns) {}

  bool is_unlimited() const { return timeout_ns_ < 0; }
  bool has_passed() const { return !is_unlimited() && remaining_ns() == 0; }

  /// Requires a limit.
  int64_t remaining_ns() const {
    if (timeout_ns_ == 0) return 0;
    const std::chrono::nanoseconds elapsed = Clock::now() - started_;
    return std::max<int64_t>(0, timeout_ns_ - elapsed.count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t timeout_ns_;
  Clock::time_point started_ = Clock::now();
};

/// Converts `nanoseconds` to one of the kernel's two-field time structures.
template <typename Timespec>
Timespec to_timespec(int64_t nanoseconds) {
  Timespec time{};
  time.tv_sec = nanoseconds / 1'000'000'000;
  time.tv_nsec = nanoseconds % 1'000'000'000;
  return time;
}

}  // namespace weightpager::io
