// The share of one memory budget that each of several networks gets.
//
// Problem. The weights of several networks are together larger than the budget. SwapNet's equation
// (1) gives each network a share by its size, and by its latency in proportion to its size:
//
//   A(i) = M(i) / ΣM · (1 − 1/n) · M  +  PS(i) / ΣPS · M / n,   PS = urgency · latency / size
//
// The equation may give a network more than its weights, or less than it can run with at all. And
// it does not ask what the network does with its share.
//
// Idea. There are two ways to share:
//  - The equation with limits. Its shares are weights. Bytes that are left after some networks have
//    reached a limit go to the others by the same weights. There is one level at which the shares,
//    each held between its limits, add up to the budget.
//  - Joint budgets. They use every network's delay by budget (step_function.h), and make either
//    the largest of all delays small, or the sum (each delay times a weight of the caller's).
//    The largest: a target that all networks can reach within the budget stays reachable if it is
//    raised, so bisection finds the least one. Then the slowest networks are settled, and the
//    others share the rest in the same way. This is for networks of which none may suffer more than
//    others.
//    The sum: network by network, the least sum for every size that is given out, exactly but for
//    grains of bytes. This is for networks that share processors: one network's reads slow all of
//    them down, so the networks that run seldom should be the ones that read.
//    Bytes that make no network faster are given out by size, to be pinned: they save reads.
//
// Shares are whole bytes. Their sum is the budget, or all weights where these are less.
//
// Cost, apart from the step functions: microseconds for a handful of networks; up to a millisecond
// for the sum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/step_function.h"

namespace weightpager::budget {

/// One network's claim on the budget.
struct Claim {
  std::string name;
  /// All weights of the network; at least 1. More memory is of no use to it.
  uint64_t model_bytes = 0;
  /// The network cannot run with less; at most `model_bytes`.
  uint64_t least_bytes = 0;
  /// What forces `least_bytes`: "layer 38 and the next", for errors.
  std::string forced_by;
  /// The time of an inference with all weights in memory.
  uint64_t latency_ns = 0;
  /// For the equation. Above 0; 1 is ordinary.
  double urgency = 1;
  /// For joint budgets, which make small the delays times this weight. Above 0. With Goal::largest
  /// and weights of 1, they make the slowest network's delay small; with weights of 1 / latency,
  /// the delay of the network that is slowed down most.
  double weight = 1;
};

/// By claim.
using Shares = std::vector<uint64_t>;

/// The least budget for all claims. check_budget() fails below it, and its error names the claim
/// that forces most.
uint64_t least_budget_bytes(std::span<const Claim> claims);
Status check_budget(std::span<const Claim> claims, uint64_t budget_bytes);

/// Equation (1), held between each claim's limits. Fails below `least_budget_bytes`.
Result<Shares> share_by_score(std::span<const Claim> claims, uint64_t budget_bytes);

/// A network's delay times its weight, rounded down.
uint64_t weighted_ns(const Claim& claim, uint64_t delay_ns);

/// What joint budgets make small: the largest weighted delay, or the sum of them.
enum class Goal { largest, sum };

struct JointShares {
  Shares shares;
  /// The largest weighted delay, or the sum of them. No shares of this budget have a smaller
  /// largest one. No shares of a budget that is (sum_grain_bytes - 1) less per network have a
  /// smaller sum.
  uint64_t target_ns = 0;
};

/// `more_bytes` is the part of the budget above the sum of all least budgets.
inline constexpr uint64_t sum_grains_max = 2048;
constexpr uint64_t sum_grain_bytes(uint64_t more_bytes) { return more_bytes / sum_grains_max + 1; }

/// `step_functions` is by claim. The least budget of each is its claim's, and no step is above its
/// claim's model. Fails below `least_budget_bytes`.
Result<JointShares> share_jointly(std::span<const Claim> claims,
                                  std::span<const StepFunction> step_functions,
                                  uint64_t budget_bytes, Goal goal);

}  // namespace weightpager::budget
