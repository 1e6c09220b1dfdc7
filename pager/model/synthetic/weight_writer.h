// The weights of a made model: generated piece by piece, and written to their places in a file.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/made_file.h"
#include "pager/base/result.h"
#include "pager/model/synthetic/make_model.h"
#include "pager/model/synthetic/shape.h"

namespace weightpager::model {

/// A planned tensor's type and place in its file.
struct PlacedTensor {
  PlannedTensor plan;
  const GgmlType* type = nullptr;
  uint64_t offset_bytes = 0;

  uint64_t size_bytes() const;
};

/// Counts what all files of a model have got so far.
class ProgressCounter {
 public:
  ProgressCounter(OnProgress on_progress, uint64_t total_bytes)
      : on_progress_(std::move(on_progress)), total_bytes_(total_bytes) {}

  /// Not thread-safe: the callback is the user's.
  void add(uint64_t bytes) {
    written_bytes_ += bytes;
    if (on_progress_) on_progress_(written_bytes_, total_bytes_);
  }

 private:
  OnProgress on_progress_;
  uint64_t total_bytes_;
  uint64_t written_bytes_ = 0;
};

/// Generates the tensors' weights and writes them to their places, with several threads.
Status write_weights(MadeFile& file, const std::vector<PlacedTensor>& tensors, uint64_t seed,
                     unsigned threads, ProgressCounter& progress);

}  // namespace weightpager::model
