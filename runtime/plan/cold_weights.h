// Numbers to measure with. Their values do not matter for how long layers take, as long as none is
// so small that processors compute it at another speed.
#pragma once

#include <cstdint>

#include "pager/base/units.h"
#include "runtime/plan/aligned_floats.h"

namespace weightpager::plan {

/// Numbers of both signs, none above `largest`, and the same in every call. Throws std::bad_alloc.
inline AlignedFloats some_numbers(uint64_t size_bytes, float largest = 1) {
  AlignedFloats numbers(size_bytes);
  uint32_t state = 1;
  for (uint64_t i = 0; i < numbers.floats(); ++i) {
    state = state * 1664525 + 1013904223;
    numbers.data()[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f * largest;
  }
  return numbers;
}

/// Weights that are in no processor cache: each run takes the next ones, and starts over when the
/// later ones have pushed the first out of the caches. The numbers are so small that a network's
/// values do not grow from layer to layer.
class ColdWeights {
 public:
  // Several times the size of caches.
  static constexpr uint64_t cold_bytes = 128 * MiB;

  /// Valid until the next call. Throws std::bad_alloc.
  const float* next(uint64_t size_bytes) {
    const uint64_t floats = round_up(size_bytes, ops::candidate_alignment) / sizeof(float);
    if (floats > numbers_.floats()) {
      numbers_ = some_numbers(floats * sizeof(float), largest);
      position_ = 0;
    }
    if (position_ + floats > numbers_.floats()) position_ = 0;
    const float* const taken = numbers_.data() + position_;
    position_ += floats;
    return taken;
  }

 private:
  static constexpr float largest = 1.0f / 64;

  AlignedFloats numbers_ = some_numbers(cold_bytes, largest);
  uint64_t position_ = 0;
};

}  // namespace weightpager::plan
