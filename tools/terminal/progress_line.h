// One line on the terminal that is overwritten a few times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weightpager::tools {

/// Shows nothing if stderr is no terminal. Used by one thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  void show(const std::string& text);
  void show_bytes(uint64_t written_bytes, uint64_t total_bytes);
  /// Shows "TEXT: 12 s", from the first second on.
  void show_seconds(const char* text);
  void clear();

 private:
  const bool is_terminal_;
  bool is_shown_ = false;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_;
};

}  // namespace weightpager::tools
