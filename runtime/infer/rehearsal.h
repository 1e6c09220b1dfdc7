// Runs plans before anybody relies on them: the last word on which of some is the fastest, and on
// what it takes.
//
// Problem. Plans are calculated from what kernels and reads take. How a disk answers a few small
// reads beside kernels of all lengths is more than a speed and a latency say: on the same machine
// plans took 15 % less to 39 % more than calculated, and now and then a plain one would have been
// faster.
//
// Idea. What runs a plan for its user runs it here: weights are packed for it, into a file beside
// the ones that were given, and inferences are counted. Plans take turns of some passes each, so
// that all see the same machine; the first pass of a turn fills the window and does not count.
// Whichever is the fastest of some was also lucky, more so the more a machine's pace changes: what
// it takes is told by turns that it has by itself afterwards.
//
// Cost: a second or two for each plan and once more, beside packing, its memory, and on the disk
// its weights, which have no name any more as soon as they can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

struct Rehearsed {
  /// Of the plans, by number.
  size_t fastest = 0;
  /// Its median.
  uint64_t delay_ns = 0;
};

/// `weights_path`: any file of the network's weights that `model pack` takes. Requires a plan.
/// Fails where weights cannot be packed beside it, or inferences fail.
Result<Rehearsed> rehearse(const network::Network& network, std::span<const plan::JointPlan> plans,
                           const std::string& weights_path, int threads);

}  // namespace weightpager::infer
