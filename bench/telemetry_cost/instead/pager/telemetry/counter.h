// Stands in for pager/telemetry/counter.h where the pager is compiled once more for this benchmark:
// recording is nothing, or (WP_COUNT_RECORDINGS) is counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weightpager::telemetry {

using Counter = std::atomic<uint64_t>;

#ifdef WP_COUNT_RECORDINGS
inline uint64_t recordings = 0;

inline void set(Counter& counter, uint64_t value) {
  ++recordings;
  counter.store(value, std::memory_order_relaxed);
}
inline void add(Counter& counter, uint64_t amount) {
  set(counter, counter.load(std::memory_order_relaxed) + amount);
}
inline void raise_to(Counter& counter, uint64_t value) {
  set(counter, std::max(counter.load(std::memory_order_relaxed), value));
}
#else
inline void set(Counter& /*counter*/, uint64_t /*value*/) {}
inline void add(Counter& /*counter*/, uint64_t /*amount*/) {}
inline void raise_to(Counter& /*counter*/, uint64_t /*value*/) {}
#endif

}  // namespace weightpager::telemetry
