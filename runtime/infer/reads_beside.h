// A pipeline's reads without the pipeline: the floor of its delay.
//
// Problem. Reading takes processor time and memory bandwidth from what computes: system calls, the
// disk's driver, interrupts, a hypervisor. Of what a pipeline costs beyond having everything in
// memory, how much is that, and how much is the pipeline's own?
//
// Idea. Everything in memory computes, and beside each kernel, as in the pipeline, the pipeline's
// pieces are read into a ring like the pipeline's. The same schedule says when, with clocks for
// kernels: each ends when its piece would be computed if nothing ever had to wait. So the reads
// have the sizes, the order, the depth and the pace of the pipeline's, and nobody waits for them or
// looks at their bytes. A pipeline that reads the same bytes in the same requests cannot be faster,
// if a read costs the same whoever it is for, and if computing from weights that have just arrived
// is not faster than from those that lie in memory. (A ring may fit a cache that all weights do
// not.)
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

/// Of one thread: the one that computes.
class ReadsBeside {
 public:
  /// What a two-stage inference in this window reads, but for what is pinned.
  static Result<std::unique_ptr<ReadsBeside>> make(const std::string& weights_path,
                                                   const WindowUse& window);

  /// One inference's reads begin with that inference, which is to be run next, after one that has
  /// brought its weights in.
  void begin();
  /// Beside each of its kernels (InferenceOptions::beside_kernels). Does nothing if none has begun.
  void go_on();
  /// After that inference: waits until they are over.
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
  std::vector<uint64_t> ends_ns_;  // of the units' kernels, from the inference's start on
  pipeline::Schedule schedule_;
  pipeline::MirroredRing ring_;
  pipeline::ReadLine read_line_;
  std::deque<pipeline::UnitNumber> kernels_;
  std::unique_ptr<io::Reader> reader_;  // into the ring: first to go
  uint64_t begun_ = 0;
  uint64_t start_ns_ = 0;
  Status outcome_;
  uint64_t read_bytes_ = 0;
};

}  // namespace weightpager::infer
