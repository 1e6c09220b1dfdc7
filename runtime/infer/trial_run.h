// Trial runs: runs a few plans, chooses the fastest, and measures its delay.
//
// Problem. Plans are calculated from the times of kernels and reads. Small reads beside kernels of
// all lengths cannot be predicted from a disk's speed and latency alone: on the same machine, plans
// took from 15 % less to 39 % more than calculated, and sometimes a simpler plan would have been
// faster (docs/explanation/planning.md).
//
// Idea. A trial run executes a plan as `infer` does: weights are packed for the plan, into a file
// beside the given weights, and inferences are timed. Plans take turns of a few passes each, so
// that all plans see the same machine. The first pass of a turn fills the window and does not
// count. The fastest plan was partly lucky, and more so on a machine whose speed varies much. So
// its delay is measured again afterwards, in turns without the other plans.
//
// Cost: for each plan one or two seconds, packing, the plan's memory, and disk space for its
// weights, whose file is unlinked as soon as it is open; for the fastest plan one or two seconds
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

struct TrialRun {
  /// The number of the fastest plan.
  size_t fastest = 0;
  /// The median of its delays.
  uint64_t delay_ns = 0;
};

/// `weights_path`: any file of the network's weights that `model pack` accepts. There is at least
/// one plan. Fails if weights cannot be packed beside that file, or if an inference fails.
Result<TrialRun> run_trials(const network::Network& network, std::span<const plan::JointPlan> plans,
                            const std::string& weights_path, int threads);

}  // namespace weightpager::infer
