#include "tools/terminal/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace weightpager::tools {

bool is_screen() {
  const char* const terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(STDOUT_FILENO) == 1 && !is_dumb;
}

bool wants_colour() {
  const char* const refusal = std::getenv("NO_COLOR");
  return is_screen() && (refusal == nullptr || *refusal == 0);
}

}  // namespace weightpager::tools
