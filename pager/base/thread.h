// Threads in a process that is not ours: they must not receive the engine's signals.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "pager/base/plain_memory.h"
#include "pager/base/result.h"

namespace weightpager {

/// Starts a thread with all signals blocked, under a name of at most 15 characters (ps -L shows
/// it), which takes plain memory. Fails if the process, the user or the container may not have
/// another thread.
template <typename Function>
Result<std::thread> start_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int error_number = 0;
  try {
    thread = std::thread([function = std::move(function)]() mutable {
      takes_plain_memory = true;
      function();
    });
  } catch (const std::system_error& error) {
    error_number = error.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error_number != 0) {
    return fail(
        std::string("no room for the thread ") + name + ": " + std::strerror(error_number),
        "raise the limits on threads (ulimit -u, the cgroup's pids.max) and on address space "
        "(ulimit -v)",
        error_number);
  }
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

/// The calling thread gets one part in 70 of a processor that another thread wants, too.
inline void take_least_priority() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
}

/// The kernel's struct sched_attr (sched_setattr(2)), which few C libraries have.
struct SchedulingAttributes {
  uint32_t size_bytes = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_BATCH;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t turn_ns = 0;  // all other fields belong to other policies
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

/// For threads that compute: if others want the processor, too, the calling thread, and threads
/// that it starts, get fewer and longer turns instead of some milliseconds each, and no preference
/// when they wake. Kernels before 6.12 do not know the length, only the lack of preference. If the
/// kernel refuses, nothing changes.
inline void take_long_turns() {
  const SchedulingAttributes attributes = {.turn_ns = 50'000'000};
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// While the object exists, a thread with long turns has preference again when it wakes from sleep.
class HasteToWake {
 public:
  HasteToWake() : has_long_turns_(sched_getscheduler(0) == SCHED_BATCH) {
    const SchedulingAttributes attributes = {.policy = SCHED_OTHER};
    if (has_long_turns_) syscall(SYS_sched_setattr, 0, &attributes, 0);
  }
  ~HasteToWake() {
    if (has_long_turns_) take_long_turns();
  }
  HasteToWake(const HasteToWake&) = delete;
  HasteToWake& operator=(const HasteToWake&) = delete;

 private:
  const bool has_long_turns_;
};

/// Starts a thread that has to open things before anybody may rely on it. `run(opened)` sets the
/// promise to the result of opening, and returns at once if opening failed. This function waits for
/// the result, and returns the thread or the error.
template <typename Run>
Result<std::thread> start_thread_that_opens(const char* name, Run run) {
  std::promise<Status> opened;
  std::future<Status> outcome = opened.get_future();
  auto thread = start_thread(name, [run, opened = std::move(opened)]() mutable { run(opened); });
  if (!thread) return thread;
  Status status = outcome.get();
  if (status) return thread;
  thread->join();
  return forward_error(std::move(status));
}

}  // namespace weightpager
