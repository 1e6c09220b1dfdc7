// How long chunks should linger behind the cursor, by touches that came too late for them.
//
// Problem. Threads that share a matrix work some way apart. A thread that is further behind than
// chunks linger has to read its chunk again. Chunks linger longer in a longer ring, and a longer
// ring takes pins, each of which saves a read in every pass.
//
// Idea. Each such touch tells for how long its chunk should have lingered. Of these, the one is
// wanted whose ring saves the most reads beyond the pins that it takes. One pass says little: the
// window fills, or visits that the order lacks are about to be found.
//
// Cost: O(1) a touch, O(1) a pass (the last 64 touches are kept). Allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weightpager::policy {

class LingerNeed {
 public:
  /// Forgets all touches.
  void reset() { *this = {}; }
  /// A touch would have found its chunk, had chunks lingered for so long.
  void note(uint32_t linger) { lingers_[count_++ % lingers_.size()] = linger; }
  /// The touches of this pass.
  uint32_t count() const { return count_; }
  /// A pass is over, in which the ring had so many chunks. `saved_min`: reads.
  void end_pass(uint32_t ring, uint32_t saved_min) {
    linger_before_ = std::exchange(linger_, that_pays(ring, saved_min));
    count_ = 0;
  }
  /// What two passes in a row want, or 0.
  uint32_t lasting() const { return linger_before_ == 0 ? 0 : linger_; }
  /// For how long chunks should linger by the touches of this pass, with a ring of twice that
  /// length, or 0 if a ring longer than `ring` would not save `saved_min` reads.
  uint32_t that_pays(uint32_t ring, uint32_t saved_min) const;

 private:
  std::array<uint32_t, 64> lingers_{};  // of the last touches
  uint32_t count_ = 0;
  uint32_t linger_ = 0;         // what the last pass wants
  uint32_t linger_before_ = 0;  // … and the one before
};

inline uint32_t LingerNeed::that_pays(uint32_t ring, uint32_t saved_min) const {
  auto sorted = lingers_;
  const size_t kept = std::min<size_t>(count_, sorted.size());
  std::sort(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(kept));
  uint32_t best = 0;
  uint64_t most_saved = saved_min;
  for (size_t i = 0; i < kept; ++i) {
    const uint64_t reads = (i + 1) * count_ / kept;
    const uint64_t pins =
        2 * uint64_t{sorted[i]} - std::min<uint64_t>(2 * uint64_t{sorted[i]}, ring);
    if (reads <= pins + most_saved) continue;
    most_saved = reads - pins;
    best = sorted[i];
  }
  return best;
}

}  // namespace weightpager::policy
