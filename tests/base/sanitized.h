// Whether this build looks for faults of memory and of threads. There, code takes five to ten times
// as long, so tests of many cases try fewer: values are checked by the release build, and the code
// that runs is the same.
#pragma once

namespace weightpager {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

/// How many cases to try.
constexpr int cases(int in_release, int where_sanitized) {
  return is_sanitized ? where_sanitized : in_release;
}

}  // namespace weightpager
