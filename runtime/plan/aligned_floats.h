// Floats where vector code likes them, all zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "runtime/ops/cpu/convolution_candidate.h"

namespace weightpager::plan {

/// Throws std::bad_alloc.
class AlignedFloats {
 public:
  explicit AlignedFloats(uint64_t size_bytes)
      : floats_((size_bytes / ops::candidate_alignment + 1) * ops::candidate_alignment /
                sizeof(float)),
        data_(static_cast<float*>(
            std::aligned_alloc(ops::candidate_alignment, floats_ * sizeof(float)))) {
    if (!data_) throw std::bad_alloc();
    std::fill_n(data_.get(), floats_, 0.0f);
  }

  float* data() const { return data_.get(); }
  uint64_t floats() const { return floats_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  uint64_t floats_;
  std::unique_ptr<float, Free> data_;
};

}  // namespace weightpager::plan
