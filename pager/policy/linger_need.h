// How long chunks should linger behind the cursor, by touches of chunks that were gone by then.
//
// Problem. Threads that share a matrix work some way apart. A thread that is further behind than
// chunks linger has to read its chunk again. Chunks linger longer in a longer ring, and a longer
// ring takes pins, each of which saves a read in every pass.
//
// Idea. Each such touch tells for how long its chunk should have lingered. Of these, the one is
// wanted whose ring saves the most reads beyond the pins that it takes, and the longest of equal
// ones. One pass in which that is little says nothing: the window fills, or visits that the order
// lacks are about to be found.
//
// Cost: O(1) a touch; a question sorts the last 64 touches. Allocates nothing.
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
    const bool is_much = that_pays(ring, much_times * saved_min) > 0;
    const bool was_any = std::exchange(last_, that_pays(ring, saved_min)) > 0;
    lasting_ = is_much || was_any ? last_ : 0;
    count_ = 0;
  }
  /// What two passes in a row want, or one pass to save many reads; or 0.
  uint32_t lasting() const { return lasting_; }
  /// For how long chunks should linger by the touches of this pass, with a ring of twice that
  /// length, or 0 if a ring longer than `ring` would not save `saved_min` reads.
  uint32_t that_pays(uint32_t ring, uint32_t saved_min) const;

 private:
  static constexpr uint32_t much_times = 4;

  std::array<uint32_t, 64> lingers_{};  // of the last touches
  uint32_t count_ = 0;
  uint32_t last_ = 0;  // what the last pass wants
  uint32_t lasting_ = 0;
};

inline uint32_t LingerNeed::that_pays(uint32_t ring, uint32_t saved_min) const {
  auto sorted = lingers_;
  const size_t kept = std::min<size_t>(count_, sorted.size());
  const auto end = sorted.begin() + static_cast<ptrdiff_t>(kept);
  std::sort(sorted.begin(), end);
  // What lingers long enough already was gone for another reason.
  auto begin = std::find_if(sorted.begin(), end, [&](uint64_t it) { return 2 * it > ring; });
  uint32_t best = 0;
  uint64_t most_saved = saved_min;
  for (auto it = begin; it != end; ++it) {
    const auto touches = static_cast<uint64_t>(it - begin) + 1;
    const uint64_t reads = touches * count_ / kept;
    const uint64_t pins = 2 * uint64_t{*it} - ring;
    if (reads < pins + most_saved) continue;
    most_saved = reads - pins;
    best = *it;
  }
  return best;
}

}  // namespace weightpager::policy
