// Lets engine threads call functions on the thread that serves them, without a lock and without a
// file descriptor. A command is such a function. It lies on the engine thread's stack and is pushed
// on a stack of commands, and the doorbell rings. The engine thread sleeps until the command is
// done.
#pragma once

#include <atomic>
#include <utility>

#include "pager/fault/doorbell.h"

namespace weightpager::fault {

class CommandStack {
 public:
  /// For any thread but the serving one. Returns when `act()` has been called on the serving
  /// thread. `act` may refer to the caller's stack.
  template <typename Act>
  void execute(Doorbell& doorbell, Act act) {
    Command command{.call = [](void* it) { (*static_cast<Act*>(it))(); }, .act = &act};
    command.next = newest_.load(std::memory_order_relaxed);
    while (!newest_.compare_exchange_weak(command.next, &command, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
    doorbell.ring();
    command.is_done.wait(false, std::memory_order_acquire);
  }

  /// For the serving thread, after a ring: carries out the commands in the order of arrival.
  void carry_out() {
    Command* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    Command* oldest = nullptr;
    while (newest != nullptr) {
      Command* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    while (oldest != nullptr) {
      Command& command = *std::exchange(oldest, oldest->next);
      command.call(command.act);
      // The command's memory is its owner's again as soon as the flag is set; waking needs no more
      // than its address.
      command.is_done.store(true, std::memory_order_release);
      command.is_done.notify_one();
    }
  }

 private:
  struct Command {
    void (*call)(void*) = nullptr;
    void* act = nullptr;
    Command* next = nullptr;
    std::atomic<bool> is_done{false};
  };

  std::atomic<Command*> newest_{nullptr};
};

}  // namespace weightpager::fault
