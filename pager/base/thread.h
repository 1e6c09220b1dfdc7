// Threads in a process that belongs to somebody else: the engine's signals are not their business.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace weightpager {

/// A thread with all signals blocked, under a name of at most 15 characters (ps -L shows it).
template <typename Function>
std::thread start_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace weightpager
