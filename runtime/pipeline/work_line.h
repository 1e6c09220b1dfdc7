// Work in line for a thread: whoever has some puts it at the end, the thread takes it from the
// front and sleeps while there is none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace weightpager::pipeline {

/// Any thread may call anything.
template <typename Work>
class WorkLine {
 public:
  void put(Work work) {
    {
      const std::lock_guard lock(mutex_);
      line_.push_back(std::move(work));
    }
    is_filled_.notify_one();
  }

  Work take() {
    std::unique_lock lock(mutex_);
    is_filled_.wait(lock, [&] { return !line_.empty(); });
    Work work = std::move(line_.front());
    line_.pop_front();
    return work;
  }

  bool is_empty() {
    const std::lock_guard lock(mutex_);
    return line_.empty();
  }

  /// Nobody takes what was in line and `is_unwanted`. Returns how much that was.
  template <typename IsUnwanted>
  uint32_t remove_if(IsUnwanted is_unwanted) {
    const std::lock_guard lock(mutex_);
    return static_cast<uint32_t>(std::erase_if(line_, is_unwanted));
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_filled_;
  std::deque<Work> line_;
};

}  // namespace weightpager::pipeline
