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
//  - Joint budgets. With every network's delay by budget (staircase.h), the largest of all delays
//  is
//    made as small as it can be (each times a weight, as the caller has it): a target that all
//    networks can reach within the budget stays reachable if it is raised, so it is found by
//    bisection. Then the slowest networks are settled, and the same is asked of the others with
//    what is left. What nobody needs to be faster is given out by size, to be pinned: it saves
//    reads.
//
// Shares are whole bytes; their sum is the budget, or all weights where these are less.
//
// Cost: microseconds for a handful of networks, once their staircases are there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/staircase.h"

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
  /// Above 0. Joint budgets make the largest of all delays times their weights small: with 1 the
  /// slowest network's, with 1 / latency the one's that is slowed down most.
  double weight = 1;
};

/// By claim.
using Shares = std::vector<uint64_t>;

/// The least budget for all claims, and an error below it that names who forces it.
uint64_t least_budget_bytes(std::span<const Claim> claims);
Status check_budget(std::span<const Claim> claims, uint64_t budget_bytes);

/// Equation (1), held between each claim's limits. Fails below `least_budget_bytes`.
Result<Shares> share_by_score(std::span<const Claim> claims, uint64_t budget_bytes);

/// Equation (1) as it is printed, without limits: for comparison.
std::vector<double> shares_as_printed(std::span<const Claim> claims, uint64_t budget_bytes);

/// A network's delay, times its weight, rounded down.
uint64_t weighted_ns(const Claim& claim, uint64_t delay_ns);

struct JointShares {
  Shares shares;
  /// The largest weighted delay: no shares of this budget have a smaller one.
  uint64_t target_ns = 0;
};

/// `staircases`: by claim; the least budget of each is its claim's, and no step is above its model.
/// Fails below `least_budget_bytes`.
Result<JointShares> share_jointly(std::span<const Claim> claims,
                                  std::span<const Staircase> staircases, uint64_t budget_bytes);

}  // namespace weightpager::budget
