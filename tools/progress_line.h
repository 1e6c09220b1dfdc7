// One line on the terminal that is overwritten a few times a second.
#pragma once

#include <chrono>
#include <cstdint>

namespace weightpager::tools {

/// Shows nothing where stderr is no terminal. Used by one thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  void show(uint64_t written_bytes, uint64_t total_bytes);
  void clear();

 private:
  const bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace weightpager::tools
