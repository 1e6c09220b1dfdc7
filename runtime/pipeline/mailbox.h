// What an executor's driver is told by others: by who wants inferences, who computes, the device's
// threads.
//
// The driver sleeps until a read is finished, so words ring a descriptor that its reader looks at,
// too. Most need not: that a kernel has ended is of no interest before that makes room for
// something, and waking a thread beside those that compute costs them more than what it then does
// (docs/explanation/inference.md).
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

struct Word {
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
  /// Of what the caller wants: how many failures it knew of.
  uint64_t failures_seen = 0;
  Span when;
  Error error;
};

/// Any thread puts words in; the driver takes them. The descriptor is a clock's, which strikes at
/// once or soon.
class Mailbox {
 public:
  Mailbox() : bell_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

  bool is_open() const { return bell_.is_open(); }
  int fd() const { return bell_.get(); }

  void put(Word word) {
    put_quietly(std::move(word));
    ring();
  }

  /// For the driver to find when something else wakes it.
  void put_quietly(Word word) {
    const MutexLock lock(mutex_);
    words_.push_back(std::move(word));
  }
  void ring() { ring_in(1); }
  /// When the kernel that begins now is under way. A driver that is woken takes the processor of
  /// who wakes it: between two kernels all threads that compute would wait for that one.
  void ring_soon() { ring_in(soon_ns); }

  bool is_empty() {
    const MutexLock lock(mutex_);
    return words_.empty();
  }

  std::vector<Word> take_all() {
    uint64_t rings;
    [[maybe_unused]] const ssize_t length = read(bell_.get(), &rings, sizeof rings);
    const MutexLock lock(mutex_);
    return std::exchange(words_, {});
  }

 private:
  static constexpr long soon_ns = 40'000;

  void ring_in(long delay_ns) {
    const itimerspec once = {.it_interval = {}, .it_value = {0, delay_ns}};
    timerfd_settime(bell_.get(), 0, &once, nullptr);
  }

  const OwnedFd bell_;
  Mutex mutex_;
  std::vector<Word> words_ WP_GUARDED_BY(mutex_);
};

}  // namespace weightpager::pipeline
