// How engine threads hand commands to a thread that serves them, without a lock and without a file
// descriptor: the command lies on its thread's stack, is pushed on a stack of such, and the
// doorbell rings. The thread sleeps until the command is done.
#pragma once

#include <atomic>
#include <utility>

#include "pager/fault/doorbell.h"

namespace weightpager::fault {

/// `Command` has the members `Command* next` and `std::atomic<bool> is_done`, both initially zero.
template <typename Command>
class CommandStack {
 public:
  /// Any thread but the serving one. Returns when the command is done.
  void execute(Command& command, Doorbell& doorbell) {
    command.next = newest_.load(std::memory_order_relaxed);
    while (!newest_.compare_exchange_weak(command.next, &command, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
    doorbell.ring();
    command.is_done.wait(false, std::memory_order_acquire);
  }

  /// The serving thread, after a ring. Calls `act(command)` for each in the order of arrival.
  template <typename Act>
  void take(Act act) {
    Command* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    Command* oldest = nullptr;
    while (newest != nullptr) {
      Command* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    while (oldest != nullptr) {
      Command& command = *std::exchange(oldest, oldest->next);
      act(command);
      // The command's memory is its owner's again as soon as the flag is set; waking needs no more
      // than its address.
      command.is_done.store(true, std::memory_order_release);
      command.is_done.notify_one();
    }
  }

 private:
  std::atomic<Command*> newest_{nullptr};
};

}  // namespace weightpager::fault
