#include "tools/terminal/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "pager/base/units.h"

namespace weightpager::tools {

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  is_shown_ = true;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}

void ProgressLine::show_bytes(uint64_t written_bytes, uint64_t total_bytes) {
  show(fmt::format("written: {} of {}", format_size(written_bytes), format_size(total_bytes)));
}

void ProgressLine::show_seconds(const char* text) {
  const auto elapsed = std::chrono::steady_clock::now() - begin_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
  if (seconds > 0) show(fmt::format("{}: {} s", text, seconds));
}

void ProgressLine::clear() {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
}

}  // namespace weightpager::tools
