// A line of work for a thread. Other threads put work at its end. The thread takes work from the
// front, and sleeps while there is none.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "pager/base/mutex.h"

namespace weightpager::pipeline {

/// Any thread may call any function.
template <typename Work>
class WorkLine {
 public:
  void put(Work work) {
    {
      const MutexLock lock(mutex_);
      line_.push_back(std::move(work));
    }
    is_filled_.wake_one();
  }

  Work take() {
    const MutexLock lock(mutex_);
    while (line_.empty()) is_filled_.wait(mutex_);
    Work work = std::move(line_.front());
    line_.pop_front();
    return work;
  }

  bool is_empty() {
    const MutexLock lock(mutex_);
    return line_.empty();
  }

  /// Removes the work in line for which `is_unwanted` is true. Returns how many items that was.
  template <typename IsUnwanted>
  uint32_t remove_if(IsUnwanted is_unwanted) {
    const MutexLock lock(mutex_);
    return static_cast<uint32_t>(std::erase_if(line_, is_unwanted));
  }

 private:
  Mutex mutex_;
  Condition is_filled_;
  std::deque<Work> line_ WP_GUARDED_BY(mutex_);
};

}  // namespace weightpager::pipeline
