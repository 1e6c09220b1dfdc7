// Finds out which of the process's own limits prevents more addresses.
#pragma once

#include <sys/resource.h>

namespace weightpager {

inline bool is_limited(__rlimit_resource resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// The limit to raise: private writable memory counts for `ulimit -d`, all memory for `ulimit -v`.
inline const char* address_limit_hint() {
  if (!is_limited(RLIMIT_DATA)) return "raise `ulimit -v`, or choose a smaller --window";
  if (!is_limited(RLIMIT_AS)) return "raise `ulimit -d`, or choose a smaller --window";
  return "raise `ulimit -d` and `ulimit -v`, or choose a smaller --window";
}

}  // namespace weightpager
