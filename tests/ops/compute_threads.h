// How many threads compute in tests.
#pragma once

namespace weightpager::ops {

// ThreadSanitizer does not see how libgomp's threads wait for each other, and reports every value
// that one hands to the next.
#if defined(__SANITIZE_THREAD__)
inline constexpr int compute_threads = 1;
#else
inline constexpr int compute_threads = 2;
#endif

}  // namespace weightpager::ops
