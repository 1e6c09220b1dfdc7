#include "tools/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "pager/base/units.h"

namespace weightpager::tools {

ProgressLine::ProgressLine() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(uint64_t written_bytes, uint64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  is_shown_ = true;
  fmt::print(stderr, "\r\033[Kwritten: {} of {}", format_size(written_bytes),
             format_size(total_bytes));
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
}

}  // namespace weightpager::tools
