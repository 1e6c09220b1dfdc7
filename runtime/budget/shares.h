// How much of one memory budget each of several networks gets.
//
// Problem. Their weights together are larger than the budget. SwapNet's equation (1) gives each a
// share by its size and by how long it takes for its size:
//
//   A(i) = M(i) / ΣM · (1 − 1/n) · M  +  PS(i) / ΣPS · M / n,   PS = urgency · latency / size
//
// It may give a network more than its weights, and less than it can run with at all; and it does
// not ask what the network does with its share.
//
// Idea. Two of them:
//  - The equation with limits. Its shares are weights, and what is left of the budget after some
//    networks have reached a limit goes to the others by the same weights: there is one level for
//    which the shares, each held between its limits, add up to the budget.
//  - Joint budgets. With every network's delay by budget (step_function.h), what is made small is
//  the
//    largest of all delays, or their sum (each times a weight, as the caller has it).
//    The largest: a target that all networks can reach within the budget stays reachable if it is
//    raised, so it is found by bisection. Then the slowest networks are settled, and the same is
//    asked of the others with what is left. It is for who must not suffer more than others.
//    The sum: network by network, the least sum for every size of what is given out, exactly but
//    for grains of bytes. It is for networks that share processors: what one of them reads slows
//    all of them down, so it had better be read by who runs seldom.
//    What nobody needs to be faster is given out by size, to be pinned: it saves reads.
//
// Shares are whole bytes; their sum is the budget, or all weights where these are less.
//
// Cost, once the step functions are there: microseconds for a handful of networks; for the sum up
// to a millisecond.
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
  /// All its weights; 1 or more. More than that is of no use to it.
  uint64_t model_bytes = 0;
  /// Below this it cannot run; at most `model_bytes`.
  uint64_t least_bytes = 0;
  /// What makes it so: "layer 38 and the next", for errors.
  std::string forced_by;
  /// With all weights in memory.
  uint64_t latency_ns = 0;
  /// Above 0; 1 is ordinary. For the equation.
  double urgency = 1;
  /// Above 0; what joint budgets make small are delays times it. With 1, of the largest: the
  /// slowest network's; with 1 / latency, the one's that is slowed down most.
  double weight = 1;
};

/// By claim.
using Shares = std::vector<uint64_t>;

/// The least budget for all claims, and an error below it that names who forces it.
uint64_t least_budget_bytes(std::span<const Claim> claims);
Status check_budget(std::span<const Claim> claims, uint64_t budget_bytes);

/// Equation (1), held between each claim's limits. Fails below `least_budget_bytes`.
Result<Shares> share_by_score(std::span<const Claim> claims, uint64_t budget_bytes);

/// A network's delay, times its weight, rounded down.
uint64_t weighted_ns(const Claim& claim, uint64_t delay_ns);

/// What joint budgets make small, of all weighted delays.
enum class Goal { largest, sum };

struct JointShares {
  Shares shares;
  /// The largest weighted delay, or the sum of them. No shares of this budget have a smaller
  /// largest one; none have a smaller sum that lose `sum_grain_bytes` less a byte per network.
  uint64_t target_ns = 0;
};

/// Of a budget that leaves so much above all least budgets.
inline constexpr uint64_t sum_grains_max = 2048;
constexpr uint64_t sum_grain_bytes(uint64_t more_bytes) { return more_bytes / sum_grains_max + 1; }

/// `step_functions`: by claim. The least budget of each is its claim's, and no step is above its
/// model.
/// Fails below `least_budget_bytes`.
Result<JointShares> share_jointly(std::span<const Claim> claims,
                                  std::span<const StepFunction> step_functions,
                                  uint64_t budget_bytes, Goal goal);

}  // namespace weightpager::budget
