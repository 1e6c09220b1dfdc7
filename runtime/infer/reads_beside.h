// A pipeline's reads without the pipeline: they show the floor of its delay.
//
// Problem. Reading takes processor time and memory bandwidth from kernels: system calls, the disk's
// driver, interrupts, a hypervisor. A pipeline is slower than all weights in memory. How much of
// the difference is due to reading, and how much to the pipeline itself?
//
// Idea. Kernels compute with all weights in memory. Beside each kernel, as in the pipeline, the
// pipeline's pieces are read into a ring like the pipeline's. The same schedule says when each read
// starts. Its kernels are replaced by a clock: each ends when its piece would be computed if no
// kernel ever had to wait. So the reads have the sizes, the order, the depth and the pace of the
// pipeline's reads, but no kernel waits for them or uses their bytes. A pipeline that reads the
// same bytes in the same requests cannot be faster, on two conditions: a read costs the same in
// both, and computing from weights that have just arrived is not faster than from weights that lie
// in memory. (The second may fail: a ring may fit a cache that all weights do not.)
//
// Cost: a second ring and reader.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "runtime/infer/window_use.h"
#include "runtime/pipeline/mirrored_ring.h"
#include "runtime/pipeline/read_line.h"
#include "runtime/pipeline/schedule.h"

namespace weightpager::infer {

/// Not thread-safe: for the thread that computes.
class ReadsBeside {
 public:
  /// Makes the reads of a two-stage inference in this window, without those of pinned weights.
  /// Fails if the file cannot be opened or there is no memory for the ring.
  static Result<std::unique_ptr<ReadsBeside>> make(const std::string& weights_path,
                                                   const WindowUse& window);

  /// Begins the reads of one inference. To be called right before that inference runs. An earlier
  /// inference must have read all weights into memory.
  void begin();
  /// To be called beside each kernel of the inference (InferenceOptions::beside_kernels). Does
  /// nothing if no inference's reads have begun.
  void go_on();
  /// To be called after that inference: waits until its reads are over.
  Status finish();

  uint64_t read_bytes() const { return read_bytes_; }

 private:
  ReadsBeside(io::ModelFile file, const std::string& path, const WindowUse& window,
              pipeline::Schedule schedule);

  void look(int64_t timeout_ns);
  void end_kernels();
  void start_actions();
  void take(const io::Completion& completion);

  const io::ModelFile file_;
  const std::string path_;
  std::vector<pipeline::UnitBytes> units_;
  std::vector<uint64_t> ends_ns_;  // when units' kernels end, from the inference's start on
  pipeline::Schedule schedule_;
  pipeline::MirroredRing ring_;
  pipeline::ReadLine read_line_;
  std::deque<pipeline::UnitNumber> kernels_;
  std::unique_ptr<io::Reader> reader_;  // writes into the ring, so it is destroyed first
  uint64_t begun_ = 0;
  uint64_t start_ns_ = 0;
  Status outcome_;
  uint64_t read_bytes_ = 0;
};

}  // namespace weightpager::infer
