#include "pager/base/refusal.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pager/base/log.h"

namespace weightpager {

void end_refused(const char* call, int error_number) noexcept {
  char text[512];
  std::snprintf(text, sizeof text,
                "%s is refused to weightpager's threads: %s. A system call filter (seccomp), as "
                "engines set that lock themselves down, is the likely cause; no weights can be "
                "brought any more, and the process ends. To mend it: let the filter allow %s, or "
                "set it for the engine's own threads only (without SECCOMP_FILTER_FLAG_TSYNC)",
                call, std::strerror(error_number), call);
  report_error(text);
  std::abort();
}

}  // namespace weightpager
