// Which chunks that the engine has not filled yet stay, though they were to go.
//
// Problem. An engine converts or repacks its weights tensor by tensor, in another order than they
// lie in memory. A tensor ends within a chunk, whose other part is filled some tensors later. A
// chunk that goes in between is written twice and read back once: of 494 MiB that llama.cpp
// repacked, 98 of 247 chunks were.
//
// Idea. Such a chunk was never written to the spill file, and has pages of zeros. It stays once,
// and goes when its turn comes again, finished or not. Only a part of the window may stay so: those
// that were to go within the last touches, for as many as a policy does not ask again for what was
// refused.
//
// Pure: no memory of the engine's, no clock but the count of touches. Cost: O(1), 512 bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace weightpager::spill {

class UnfinishedChunks {
 public:
  /// Chunks that have stayed count for so many touches.
  static constexpr uint64_t touches_counted = 64;
  /// Of the window, and at most, what has stayed.
  static constexpr uint32_t window_parts = 2;
  static constexpr uint32_t stayed_max = 64;

  /// Whether one more may stay. `touches`: since the beginning.
  bool may_stay(uint64_t touches, uint32_t window_chunks) const {
    const uint32_t most = std::min(window_chunks / window_parts, stayed_max);
    if (most == 0 || count_ < most) return most > 0;
    return touches - at_[(count_ - most) % stayed_max] >= touches_counted;
  }
  /// One has stayed.
  void note_stay(uint64_t touches) { at_[count_++ % stayed_max] = touches; }

 private:
  std::array<uint64_t, stayed_max> at_{};  // the count of touches when the last ones stayed
  uint64_t count_ = 0;
};

}  // namespace weightpager::spill
