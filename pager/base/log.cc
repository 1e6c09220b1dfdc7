#include "pager/base/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace weightpager {
namespace {

constexpr int notices_max = 20;
std::atomic<bool> quiet{false};
std::atomic<int> notices{0};

// One writev, so that lines of several threads do not mix.
void write_line(std::string_view prefix, std::string_view text) {
  const iovec parts[] = {{const_cast<char*>(prefix.data()), prefix.size()},
                         {const_cast<char*>(text.data()), text.size()},
                         {const_cast<char*>("\n"), 1}};
  (void)!writev(STDERR_FILENO, parts, 3);
}

}  // namespace

void set_quiet(bool is_quiet) { quiet = is_quiet; }

void notice(std::string_view text) {
  if (quiet || notices++ >= notices_max) return;
  write_line("weightpager: ", text);
}

void report_error(std::string_view text) { write_line("weightpager: error: ", text); }

}  // namespace weightpager
