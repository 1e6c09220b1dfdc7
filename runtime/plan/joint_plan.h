// One budget of memory for everything a network needs: its window, its activations, and what its
// convolutions take beside them.
//
// Problem. Memory can be spent on weights that stay (fewer reads), on faster ways to compute
// (workspace, weights packed four times as large, which then take longer to read), or on another
// layout of the activations. If these are planned one after the other, each takes what looks best
// to it, and the next gets only the rest.
//
// Idea. Put a cap on what activations and workspace take together (the arena), and a cap on the
// largest piece of weights. Then the rest is a question that select.h answers exactly: the front of
// computing time K against bytes of weights P. A selection's least delay in a window of W bytes has
// a bound that is known before the selection is tried:
//
//   delay ≥ max(K + a · D, D / r)   with D = max(0, P − W) bytes read per pass at r bytes per ns,
//                                   each of which costs the processors a ns.
//
// This holds because only pinned weights save a read, because computing and reading overlap at
// best, and because where they do not, waiting costs more than reading takes. So selections of all
// fronts are tried in the order of this bound, each with its best rings and pins
// (pipeline/pinning.h), until the next bound is no better than the best delay found. A front is
// made when its turn comes: with tighter caps it is nowhere better than with looser ones, so the
// bound of the looser front holds for the tighter one, too. The least bound is part of the answer:
// no plan of this kind takes less, so the distance to it is the most that a better plan could gain.
//
// The plans that are made one thing after the other are among those tried, so this plan is never
// worse.
//
// Workspace lies in the arena where no tensor is at that time: it costs something only at the
// layers that fill the arena.
//
// The search is in this file. joint_network.h has the question, joint_fronts.h its fronts,
// joint_bounds.h the bounds, and joint_trials.h the plan of a selection in a budget.
//
// Cost: fronts once per network, some tens of milliseconds each, and a window for each trial, which
// ends as soon as it cannot be as good as the best one found. docs/explanation/planning.md has the
// times of networks (bench/joint_plans_everywhere.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/network/network.h"
#include "runtime/network/weight_source.h"
#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"
#include "runtime/plan/layer_choice.h"
#include "runtime/plan/profile.h"

namespace weightpager::plan {

/// The time that reads take from the processors that compute, if these compute beside all of the
/// reads. The defaults, used where it is not measured, are what two processors of a virtual machine
/// were seen to lose (infer/reading_costs.h).
struct TakenByReads {
  double ns_per_byte = 0.09;
  double ns_per_read = 45'000;
};

struct JointSettings {
  double read_bytes_per_s = 2e9;
  /// The latency of each read, beside other reads.
  uint64_t read_latency_ns = 100'000;
  TakenByReads taken;
  int threads = 1;

  double read_ns(double bytes) const { return bytes / read_bytes_per_s * 1e9; }
};

struct JointPlan {
  /// By layer.
  std::vector<LayerChoice> choices;
  /// In execution order.
  std::vector<network::Piece> pieces;
  std::vector<uint64_t> kernel_ns;  // by piece
  std::vector<bool> is_pinned;      // by piece
  pipeline::Rings rings;
  uint64_t pinned_bytes = 0;
  /// The arena holds activations and workspace together; the other two are for each alone.
  uint64_t arena_bytes = 0;
  uint64_t activation_bytes = 0;
  uint64_t workspace_bytes = 0;
  /// All weights, as packed.
  uint64_t weight_bytes = 0;
  uint64_t read_bytes_per_pass = 0;
  uint32_t reads_per_pass = 0;
  /// The time of one pass among many in a row: with everything in memory, and in this window. No
  /// plan of this budget has a smaller delay than `bound_ns`. All three are calculated without the
  /// arena overlay (pipeline/arena_overlay.h), which inferences use nevertheless.
  uint64_t compute_ns = 0;
  uint64_t delay_ns = 0;
  uint64_t bound_ns = 0;
  /// The time of such a pass in the plan's trial run (infer/trial_run.h); 0 if it had none.
  uint64_t trial_run_ns = 0;
  /// Time was over before all selections were tried that may be faster.
  bool is_cut_short = false;

  uint64_t window_bytes() const { return rings.bytes() + pinned_bytes; }
  uint64_t memory_bytes() const { return window_bytes() + arena_bytes; }
  /// The best known time of a pass: of the trial run, or else the planned delay.
  uint64_t expected_ns() const { return trial_run_ns > 0 ? trial_run_ns : delay_ns; }
};

/// A planner's work since it was made.
struct PlanningWork {
  /// A front is made once, whatever budgets follow.
  size_t fronts = 0;
  /// Rings and pins, tried for one selection cut in one way.
  size_t windows = 0;
};

/// Not thread-safe: results for one budget are kept for the next.
class JointPlanner {
 public:
  /// `network` and `profile` must outlive this; `profile` has all times that the network needs.
  static Result<JointPlanner> make(const network::Network& network, const Profile& profile,
                                   const JointSettings& settings, const TimeLimit& limit = {});
  JointPlanner(JointPlanner&&) noexcept;
  ~JointPlanner();

  /// Below least_bytes() there is no plan; from most_bytes() on there is no better one.
  uint64_t least_bytes() const;
  uint64_t most_bytes() const;
  /// No plan can do with less than this, even where tensors lie without gaps. 0 where that is not
  /// known: in networks that only integer programming can plan, and where time was over.
  uint64_t least_bound_bytes() const;

  /// What makes the least as large as it is, in words for a message.
  std::string forced_by() const;

  /// A budget that is too small is an error, which names the least and what forces it. Where time
  /// is over, returns the best plan that was found by then, with the bound that was proved.
  Result<JointPlan> plan(uint64_t budget_bytes, const TimeLimit& limit = {});

  /// The plans that are made one thing after the other, for comparison: those that fit.
  /// The window gets the rest of the memory after
  ///  - the least workspace, with plain weights in tiles (`infer --window` runs this one);
  ///  - the fastest selection, whatever it takes;
  ///  - the fastest selection with all weights in the budget;
  ///  - the fastest selection that reads each layer's weights before the layer runs.
  std::vector<JointPlan> plans_one_after_another(uint64_t budget_bytes);

  PlanningWork work() const;

 private:
  class Implementation;
  explicit JointPlanner(std::unique_ptr<Implementation> implementation);

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace weightpager::plan
