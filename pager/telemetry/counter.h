// How a figure is recorded: by one thread, with plain stores.
//
// A counter has one writer at a time and any number of readers, so that adding needs no locked
// instruction: a load, an addition and a store, a nanosecond. What recording costs all in all is
// measured by bench/telemetry_cost.py, which compiles the pager once more with these as nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace weightpager::telemetry {

using Counter = std::atomic<uint64_t>;
static_assert(Counter::is_always_lock_free);

inline void add(Counter& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}
inline void set(Counter& counter, uint64_t value) {
  counter.store(value, std::memory_order_relaxed);
}
inline void raise_to(Counter& counter, uint64_t value) {
  if (value > counter.load(std::memory_order_relaxed)) set(counter, value);
}

}  // namespace weightpager::telemetry
