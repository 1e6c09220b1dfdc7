// Which of a process's own limits stands in the way of more addresses.
#pragma once

#include <sys/resource.h>

namespace weightpager {

inline bool is_limited(__rlimit_resource resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// What to raise: private writable memory counts for `ulimit -d`, all of it for `ulimit -v`.
inline const char* address_limit_hint() {
  if (!is_limited(RLIMIT_DATA)) return "raise `ulimit -v`, or choose a smaller --window";
  if (!is_limited(RLIMIT_AS)) return "raise `ulimit -d`, or choose a smaller --window";
  return "raise `ulimit -d` and `ulimit -v`, or choose a smaller --window";
}

}  // namespace weightpager
