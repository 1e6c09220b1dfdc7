// Threads in a process that belongs to somebody else: the engine's signals are not their business.
#pragma once

#include <pthread.h>

#include <csignal>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "pager/base/result.h"

namespace weightpager {

/// A thread with all signals blocked, under a name of at most 15 characters (ps -L shows it). Fails
/// where the process, the user or the container has no room for another one.
template <typename Function>
Result<std::thread> start_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int error_number = 0;
  try {
    thread = std::thread(std::move(function));
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

}  // namespace weightpager
