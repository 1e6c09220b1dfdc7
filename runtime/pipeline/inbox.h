// The inbox of an executor's driver: messages from the thread that asks for inferences, from the
// thread that computes, and from the device's threads.
//
// The driver sleeps until a read is finished, so a message signals a descriptor that the driver's
// reader also watches. Most messages need not wake the driver: the end of a kernel matters only
// once it makes room for reads. Waking a thread beside those that compute costs them more time than
// the driver's work itself (docs/explanation/inference.md).
#pragma once

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "runtime/pipeline/device.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

struct DriverMessage {
  enum class Kind {
    start_inference,
    let_go,
    set_reads_across,
    copy_finished,
    copy_failed,
    kernel_finished,
    kernel_failed,
    stop
  };
  Kind kind = Kind::stop;
  UnitNumber unit = 0;
  bool reads_across = false;
  /// start_inference: kernels end one by one, whatever else is ready.
  bool is_run = false;
  /// start_inference, let_go, set_reads_across: how many failures the sender knew of.
  uint64_t failures_seen = 0;
  TimeSpan when;
  Error error;
};

/// Any thread puts messages in; the driver takes them. The descriptor is a timer's, which expires
/// at once or soon.
class Inbox {
 public:
  Inbox() : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

  bool is_open() const { return timer_.is_open(); }
  int fd() const { return timer_.get(); }

  void put(DriverMessage message) {
    put_quietly(std::move(message));
    wake();
  }

  /// The driver finds the message when something else wakes it.
  void put_quietly(DriverMessage message) {
    const MutexLock lock(mutex_);
    messages_.push_back(std::move(message));
  }
  void wake() { wake_in(1); }
  /// Wakes the driver while the kernel that begins now is under way. A driver that wakes at once
  /// takes the processor of the thread that woke it: between two kernels all threads that compute
  /// would wait for that thread.
  void wake_soon() { wake_in(soon_ns); }

  bool is_empty() {
    const MutexLock lock(mutex_);
    return messages_.empty();
  }

  std::vector<DriverMessage> take_all() {
    uint64_t expirations;
    [[maybe_unused]] const ssize_t length = read(timer_.get(), &expirations, sizeof expirations);
    const MutexLock lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  static constexpr long soon_ns = 40'000;

  void wake_in(long delay_ns) {
    const itimerspec once = {.it_interval = {}, .it_value = {0, delay_ns}};
    timerfd_settime(timer_.get(), 0, &once, nullptr);
  }

  const OwnedFd timer_;
  Mutex mutex_;
  std::vector<DriverMessage> messages_ WP_GUARDED_BY(mutex_);
};

}  // namespace weightpager::pipeline
