// Runs a policy in the live pager, with an engine that only pretends to compute.
//
// The real pager pages a real file. The engine touches a byte of each chunk when the trace says so,
// and sleeps for as long as the trace says that it computes. So one machine shows for any policy
// what paging costs there, and how far off the simulator is. The window's memory is taken from the
// kernel before the first pass, because no policy can change what that costs. For the same reason
// the memory that a window will grow by is in use until the window grows: a virtual machine's host
// may give memory that was free for some seconds slowly (0.3 GB/s were seen; the kernel alone gives
// 4 GB/s).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/simulate/simulator.h"

namespace weightpager::tools {

/// The work of the pager's thread on chunks: one at a time, or several neighbours at once.
struct Handled {
  uint64_t times = 0;
  uint64_t chunks = 0;
  uint64_t ns = 0;

  double mean_chunks() const { return static_cast<double>(chunks) / static_cast<double>(times); }
  double mean_ns() const { return static_cast<double>(ns) / static_cast<double>(times); }
};

struct LiveRun {
  std::vector<simulate::PassCounts> passes;
  /// Counted in the passes after LiveOptions::warm_up_passes.
  Handled shown;
  Handled taken_out;
  uint64_t processor_ns = 0;  // of all threads of this process
  /// Bytes that all processes, the pager included, read from the file's device while the passes
  /// ran; 0 if the kernel does not say.
  uint64_t device_read_bytes = 0;
  uint64_t own_read_bytes = 0;
};

struct LiveOptions {
  /// The name of a policy that can run live.
  std::string policy;
  uint64_t window_bytes = 0;
  size_t warm_up_passes = 0;
  /// From this pass on the window has resize_bytes. Ignored if there are fewer passes.
  size_t resize_pass = SIZE_MAX;
  uint64_t resize_bytes = 0;
  /// Called before each pass and after the last one, while the engine and the disk stand still.
  std::function<void(size_t pass)> between_passes;
};

/// The same trace, with computing gathered into pieces that are long enough to sleep for.
simulate::Trace in_naps(simulate::Trace trace);

/// `trace` must have been made from `model`, which must have one file.
Result<LiveRun> run_live(const model::Model& model, const simulate::Trace& trace,
                         const LiveOptions& options);

}  // namespace weightpager::tools
