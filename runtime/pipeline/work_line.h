// Work in line for a thread: whoever has some puts it at the end, the thread takes it from the
// front and sleeps while there is none.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "pager/base/mutex.h"

namespace weightpager::pipeline {

/// Any thread may call anything.
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

  /// Nobody takes what was in line and `is_unwanted`. Returns how much that was.
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
