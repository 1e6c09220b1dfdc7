// A pipeline's reads without the pipeline: the floor of its delay.
//
// Problem. Reading takes processor time and memory bandwidth from what computes: system calls, the
// disk's driver, interrupts, a hypervisor. Of what a pipeline costs beyond having everything in
// memory, how much is that, and how much is the pipeline's own?
//
// Idea. Everything in memory computes, and between two kernels, as in the pipeline, the pipeline's
// pieces are read into a ring like the pipeline's. The same schedule says when,
// with clocks for kernels: each ends when its piece would be computed if nothing ever had to wait.
// So the reads have the sizes, the order, the depth and the pace of the pipeline's, and nobody
// waits for them or looks at their bytes. A pipeline that reads the same bytes in the same requests
// cannot be faster, if a read costs the same whoever it is for, and if computing from weights that
// have just arrived is not faster than from those that lie in memory. (A ring may fit a cache that
// all weights do not.)
//
// Cost: a second ring. It is a reader (io/reader.h) around the executor's own, which sees nothing
// of these reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "runtime/infer/window_use.h"
#include "runtime/pipeline/mirrored_ring.h"
#include "runtime/pipeline/schedule.h"

namespace weightpager::infer {

/// Outlives the readers that it opens, of which there is one at a time. For inferences that the
/// caller drives (pipeline::Driver::caller); of one thread.
class ReadsBeside {
 public:
  /// What a two-stage inference in this window reads, but for what is pinned.
  static Result<std::unique_ptr<ReadsBeside>> make(const std::string& weights_path,
                                                   const WindowUse& window);

  /// For InferenceOptions::open_reader of an inference with everything in memory.
  Result<std::unique_ptr<io::Reader>> open_reader(const io::ReaderOptions& options);

  /// One inference's reads begin with that inference, which is to be run next, after one that has
  /// brought its weights in.
  void begin();
  /// After that inference: waits until they are over.
  Status finish();

  uint64_t read_bytes() const { return read_bytes_; }

 private:
  class PacedReader;

  ReadsBeside(io::ModelFile file, const std::string& path, const WindowUse& window);

  const io::ModelFile file_;
  const std::string path_;
  std::vector<pipeline::UnitBytes> units_;
  std::vector<uint64_t> ends_ns_;  // of the units' kernels, from the inference's start on
  pipeline::Rings rings_;
  pipeline::MirroredRing ring_;
  PacedReader* reader_ = nullptr;  // that was opened last
  int error_number_ = 0;
  uint64_t read_bytes_ = 0;
};

}  // namespace weightpager::infer
