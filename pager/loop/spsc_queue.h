// A queue between two threads: one puts in, the other one takes out, and neither ever waits for the
// other.
//
// Two counters that only grow, each written by one side. A thread that is stopped in the middle of
// a call holds up nobody. Cost: one store a side; no lock, no memory beside the array.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace weightpager {

/// `places` is a power of two.
template <typename T, uint32_t places>
class SpscQueue {
 public:
  /// The one thread that puts in. Returns false if the queue is full.
  bool push(const T& value) {
    const uint32_t pushed = pushed_.load(std::memory_order_relaxed);
    if (pushed - popped_.load(std::memory_order_acquire) == places) return false;
    values_[pushed % places] = value;
    pushed_.store(pushed + 1, std::memory_order_release);
    return true;
  }

  /// The one thread that takes out. Returns false if the queue is empty.
  bool pop(T& value) {
    const uint32_t popped = popped_.load(std::memory_order_relaxed);
    if (pushed_.load(std::memory_order_acquire) == popped) return false;
    value = values_[popped % places];
    popped_.store(popped + 1, std::memory_order_release);
    return true;
  }

 private:
  static_assert((places & (places - 1)) == 0);
  static constexpr size_t cache_line_bytes = 64;

  alignas(cache_line_bytes) std::atomic<uint32_t> pushed_{0};
  alignas(cache_line_bytes) std::atomic<uint32_t> popped_{0};
  alignas(cache_line_bytes) std::array<T, places> values_{};
};

}  // namespace weightpager
