#include "pager/base/assert.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace weightpager {

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  char text[512];
  const int length =
      std::snprintf(text, sizeof text,
                    "weightpager: error: internal check failed: %s (%s:%d)\n"
                    "weightpager: hint: this is a defect in weightpager; the process stops so that "
                    "no wrong bytes are read. Please report this line.\n",
                    condition, file, line);
  if (length > 0) (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
  std::abort();
}

}  // namespace weightpager
