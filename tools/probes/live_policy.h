// A policy in the live pager, with an engine that only pretends to compute.
//
// The real pager on a real file; the engine touches a byte of each chunk when the trace says so,
// and sleeps for as long as the trace says that it computes. So one machine shows for any policy
// what paging costs there, and how far the simulator is off. The window's memory is got from the
// kernel before the first pass: what that takes, once, is no policy's business. Nor is how slowly a
// virtual machine's host gives memory that was free for some seconds (0.3 GB/s were seen, where the
// kernel alone gives 4): what a window grows by is in use until it grows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/simulate/simulator.h"

namespace weightpager::tools {

/// What the pager's thread did with chunks, one or several neighbours at once.
struct Handled {
  uint64_t times = 0;
  uint64_t chunks = 0;
  uint64_t ns = 0;

  double mean_chunks() const { return static_cast<double>(chunks) / static_cast<double>(times); }
  double mean_ns() const { return static_cast<double>(ns) / static_cast<double>(times); }
};

struct LiveRun {
  std::vector<simulate::PassCounts> passes;
  /// In those passes after LiveOptions::warm_up_passes.
  Handled shown;
  Handled taken_out;
  uint64_t processor_ns = 0;  // of all threads of this process
  /// Read from the file's device by anyone, the pager included, while the passes ran; 0 where that
  /// cannot be told.
  uint64_t device_read_bytes = 0;
  uint64_t own_read_bytes = 0;
};

struct LiveOptions {
  /// One that can run live.
  std::string policy;
  uint64_t window_bytes = 0;
  size_t warm_up_passes = 0;
  /// Another window from a pass on, if there are as many.
  size_t resize_pass = SIZE_MAX;
  uint64_t resize_bytes = 0;
  /// Called before each pass and after the last one, while the engine and the disk stand still.
  std::function<void(size_t pass)> between_passes;
};

/// The same with computing gathered in pieces that are long enough to be slept away.
simulate::Trace in_naps(simulate::Trace trace);

/// `trace` was made from `model`, whose only file is read.
Result<LiveRun> run_live(const model::Model& model, const simulate::Trace& trace,
                         const LiveOptions& options);

}  // namespace weightpager::tools
