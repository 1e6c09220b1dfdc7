// A policy in the live pager, with an engine that only pretends to compute.
//
// The real pager on a real file; the engine touches a byte of each chunk when the trace says so,
// and sleeps for as long as the trace says that it computes. So one machine shows for any policy
// what paging costs there, and how far the simulator is off. The window's memory is got from the
// kernel before the first pass: what that takes, once, is no policy's business.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/simulate/simulator.h"

namespace weightpager::tools {

struct LiveRun {
  std::vector<simulate::PassCounts> passes;
  /// Read from the file's device by anyone, the pager included, while the passes ran; 0 where that
  /// cannot be told.
  uint64_t device_read_bytes = 0;
  uint64_t own_read_bytes = 0;
};

struct LiveOptions {
  /// One that can run live.
  std::string policy;
  uint64_t window_bytes = 0;
  /// Another window from a pass on, if there are as many.
  size_t resize_pass = SIZE_MAX;
  uint64_t resize_bytes = 0;
  /// Called before each pass and after the last one, while the engine and the disk stand still.
  std::function<void(size_t pass)> between_passes;
};

/// `trace` was made from `model`, whose only file is read.
Result<LiveRun> run_live(const model::Model& model, const simulate::Trace& trace,
                         const LiveOptions& options);

}  // namespace weightpager::tools
