// Zeroed floats, aligned for vector code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "pager/base/memory_room.h"
#include "pager/base/result.h"
#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution_candidate.h"

namespace weightpager::plan {

/// There is no room for the memory that was asked for. A function that returns a Result catches
/// this and passes `error` on.
struct NoRoom : std::bad_alloc {
  explicit NoRoom(Error why) : error(std::move(why)) {}
  Error error;
};

/// Throws std::bad_alloc. A large request throws NoRoom before any memory is taken.
class AlignedFloats {
 public:
  explicit AlignedFloats(uint64_t size_bytes)
      : floats_((size_bytes / ops::candidate_alignment + 1) * ops::candidate_alignment /
                sizeof(float)) {
    look_for_room();
    data_.reset(
        static_cast<float*>(std::aligned_alloc(ops::candidate_alignment, floats_ * sizeof(float))));
    if (!data_) throw std::bad_alloc();
    std::fill_n(data_.get(), floats_, 0.0f);
  }

  float* data() const { return data_.get(); }
  uint64_t floats() const { return floats_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  // For less than this, the check for room would take longer than the allocation.
  static constexpr uint64_t much_bytes = 4 * MiB;

  void look_for_room() const {
    const uint64_t bytes = floats_ * sizeof(float);
    if (bytes < much_bytes) return;
    Status fits = check_room({.what = "measuring and packing: the next step", .bytes = bytes},
                             "make pictures smaller (`width=` and `height=` in the .cfg)");
    if (!fits) throw NoRoom(std::move(fits).error());
  }

  uint64_t floats_;
  std::unique_ptr<float, Free> data_;
};

}  // namespace weightpager::plan
