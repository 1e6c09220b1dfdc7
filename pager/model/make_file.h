// One file of a made model: written in pieces under a temporary name, renamed when it is complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/model/make.h"
#include "pager/model/make_shape.h"

namespace weightpager::model {

/// Removes the temporary file unless it was committed. Writing is thread-safe.
class MadeFile {
 public:
  /// Reserves the space on the disk, so that a full disk is found out here: the error names the
  /// file and the bytes needed.
  static Result<MadeFile> create(const std::string& path, uint64_t size_bytes);

  MadeFile(MadeFile&&) noexcept = default;
  MadeFile& operator=(MadeFile&&) = delete;
  ~MadeFile();

  Status write(uint64_t offset_bytes, std::string_view bytes);
  /// Brings the bytes to the disk and gives the file its final name.
  Status commit();

 private:
  MadeFile() = default;
  std::string temporary_path() const { return path_ + ".partial"; }

  std::string path_;
  uint64_t size_bytes_ = 0;
  OwnedFd fd_;
};

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
  ProgressCounter(Progress on_progress, uint64_t total_bytes)
      : on_progress_(std::move(on_progress)), total_bytes_(total_bytes) {}

  /// Not thread-safe: the callback is the user's.
  void add(uint64_t bytes) {
    written_bytes_ += bytes;
    if (on_progress_) on_progress_(written_bytes_, total_bytes_);
  }

 private:
  Progress on_progress_;
  uint64_t total_bytes_;
  uint64_t written_bytes_ = 0;
};

/// Generates the tensors' weights and writes them to their places, with several threads.
Status write_weights(MadeFile& file, const std::vector<PlacedTensor>& tensors, uint64_t seed,
                     unsigned threads, ProgressCounter& progress);

}  // namespace weightpager::model
