// See shares.h.
#include "runtime/budget/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::budget {
namespace {

using Claims = std::span<const Claim>;

struct Limits {
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
  double weight = 0;
};

// The share at a level, cut to whole bytes. Weights are above 0.
uint64_t held(const Limits& limits, double level) {
  const double bytes = std::floor(level * limits.weight);
  if (bytes >= static_cast<double>(limits.most_bytes)) return limits.most_bytes;
  return std::max(limits.least_bytes, static_cast<uint64_t>(bytes));
}

Shares shares_at(const std::vector<Limits>& limits, double level) {
  Shares shares;
  for (const Limits& it : limits) shares.push_back(held(it, level));
  return shares;
}

uint64_t sum(const Shares& shares) {
  uint64_t bytes = 0;
  for (const uint64_t share : shares) bytes += share;
  return bytes;
}

// The shares at the highest level at which they fit. `budget_bytes` is between the sum of the least
// and the sum of the most bytes.
Shares fill(const std::vector<Limits>& limits, uint64_t budget_bytes) {
  double low = 0, high = 1;
  while (sum(shares_at(limits, high)) < budget_bytes) high *= 2;
  // As long as doubles can tell the levels apart.
  for (double middle = high / 2; middle > low && middle < high; middle = low + (high - low) / 2) {
    (sum(shares_at(limits, middle)) <= budget_bytes ? low : high) = middle;
  }
  Shares shares = shares_at(limits, low);
  WP_ASSERT(sum(shares) <= budget_bytes);
  // The bytes that rounding lost.
  uint64_t left_bytes = budget_bytes - sum(shares);
  for (size_t i = 0; i < shares.size(); ++i) {
    const uint64_t more_bytes = std::min(left_bytes, limits[i].most_bytes - shares[i]);
    shares[i] += more_bytes;
    left_bytes -= more_bytes;
  }
  WP_ASSERT(left_bytes == 0);
  return shares;
}

uint64_t all_model_bytes(Claims claims) {
  uint64_t bytes = 0;
  for (const Claim& claim : claims) bytes += claim.model_bytes;
  return bytes;
}

Shares whole_models(Claims claims) {
  Shares shares;
  for (const Claim& claim : claims) shares.push_back(claim.model_bytes);
  return shares;
}

// The shares by equation (1), as parts of the budget: they add up to 1.
std::vector<double> weights_of_score(Claims claims) {
  const auto networks = static_cast<double>(claims.size());
  double scores = 0;
  std::vector<double> score;
  for (const Claim& claim : claims) {
    score.push_back(claim.urgency * static_cast<double>(claim.latency_ns) /
                    static_cast<double>(claim.model_bytes));
    scores += score.back();
  }
  const auto all_bytes = static_cast<double>(all_model_bytes(claims));
  std::vector<double> weights;
  for (size_t i = 0; i < claims.size(); ++i) {
    const double by_size = static_cast<double>(claims[i].model_bytes) / all_bytes;
    // If no network takes any time, there are no scores to differ in.
    const double by_score = scores > 0 ? score[i] / scores : by_size;
    weights.push_back(by_size * (1 - 1 / networks) + by_score / networks);
  }
  return weights;
}

// Gives out the rest by size, on top of the shares.
Shares with_rest(Claims claims, const Shares& shares, uint64_t left_bytes) {
  std::vector<Limits> limits;
  for (size_t i = 0; i < claims.size(); ++i) {
    limits.push_back({.least_bytes = shares[i],
                      .most_bytes = claims[i].model_bytes,
                      .weight = static_cast<double>(claims[i].model_bytes)});
  }
  return fill(limits, sum(shares) + left_bytes);
}

// Makes the largest delay least. Networks are settled one round after the other.
class LeastLargestSharing {
 public:
  LeastLargestSharing(Claims claims, std::span<const StepFunction> step_functions,
                      uint64_t budget_bytes)
      : claims_(claims),
        step_functions_(step_functions),
        is_settled_(claims.size()),
        shares_(claims.size()),
        left_bytes_(budget_bytes) {}

  JointShares run() {
    JointShares joint = {.target_ns = settle_slowest()};
    while (!std::all_of(is_settled_.begin(), is_settled_.end(), [](bool it) { return it; })) {
      settle_slowest();
    }
    joint.shares = with_rest(claims_, shares_, left_bytes_);
    return joint;
  }

 private:
  // The largest delay that is at most the target when weighted.
  uint64_t delay_max_ns(size_t i, uint64_t target_ns) const {
    const double end_ns = (static_cast<double>(target_ns) + 1) / claims_[i].weight;
    auto delay_ns = static_cast<uint64_t>(end_ns);
    // Exact to the nanosecond, in spite of rounding.
    while (weighted_ns(claims_[i], delay_ns) > target_ns) --delay_ns;
    while (weighted_ns(claims_[i], delay_ns + 1) <= target_ns) ++delay_ns;
    return delay_ns;
  }

  bool is_reachable(uint64_t target_ns) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < claims_.size(); ++i) {
      if (is_settled_[i]) continue;
      const auto share = step_functions_[i].least_bytes_for(delay_max_ns(i, target_ns));
      if (!share) return false;
      bytes += *share;
    }
    return bytes <= left_bytes_;
  }

  uint64_t least_target_ns() const {
    uint64_t low_ns = 0, high_ns = 0;
    for (size_t i = 0; i < claims_.size(); ++i) {
      if (is_settled_[i]) continue;
      const uint64_t slowest_ns = step_functions_[i].steps().front().delay_ns;
      high_ns = std::max(high_ns, weighted_ns(claims_[i], slowest_ns));
    }
    WP_ASSERT(is_reachable(high_ns));  // with the least budgets
    while (low_ns < high_ns) {
      const uint64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
      if (is_reachable(middle_ns)) {
        high_ns = middle_ns;
      } else {
        low_ns = middle_ns + 1;
      }
    }
    return high_ns;
  }

  // Networks that are as slow as the target get the bytes that they need for it. There is at least
  // one: without any, a smaller target would do.
  uint64_t settle_slowest() {
    const uint64_t target_ns = least_target_ns();
    bool is_any_settled = false;
    uint64_t taken_bytes = 0;
    for (size_t i = 0; i < claims_.size(); ++i) {
      if (is_settled_[i]) continue;
      const uint64_t share = *step_functions_[i].least_bytes_for(delay_max_ns(i, target_ns));
      if (weighted_ns(claims_[i], step_functions_[i].delay_ns(share)) < target_ns) continue;
      is_settled_[i] = is_any_settled = true;
      shares_[i] = share;
      taken_bytes += share;
    }
    WP_ASSERT(is_any_settled && taken_bytes <= left_bytes_);
    left_bytes_ -= taken_bytes;
    return target_ns;
  }

  Claims claims_;
  std::span<const StepFunction> step_functions_;
  std::vector<bool> is_settled_;
  Shares shares_;
  uint64_t left_bytes_;
};

// Makes the sum least, network by network: for every size that the networks so far may have
// together above their least, the least sum of their delays. Sizes are whole grains, and steps are
// rounded up to them.
class LeastSumSharing {
 public:
  LeastSumSharing(Claims claims, std::span<const StepFunction> step_functions,
                  uint64_t budget_bytes)
      : claims_(claims),
        step_functions_(step_functions),
        more_bytes_(budget_bytes - least_budget_bytes(claims)),
        sums_(more_bytes_ / sum_grain_bytes(more_bytes_) + 1) {}

  JointShares run() {
    std::vector<std::vector<uint32_t>> chosen_steps;  // by network and grains
    for (size_t i = 0; i < claims_.size(); ++i) chosen_steps.push_back(add_network(i));
    Shares shares(claims_.size());
    uint64_t left_bytes = more_bytes_;
    size_t grains = sums_.size() - 1;
    for (size_t i = claims_.size(); i-- > 0;) {
      const Step& step = step_functions_[i].steps()[chosen_steps[i][grains]];
      shares[i] = step.budget_bytes;
      left_bytes -= step.budget_bytes - claims_[i].least_bytes;
      grains -= grains_of(i, step);
    }
    JointShares joint = {.shares = with_rest(claims_, shares, left_bytes)};
    for (size_t i = 0; i < claims_.size(); ++i) {
      joint.target_ns += weighted_ns(claims_[i], step_functions_[i].delay_ns(joint.shares[i]));
    }
    return joint;
  }

 private:
  size_t grains_of(size_t i, const Step& step) const {
    const uint64_t grain_bytes = sum_grain_bytes(more_bytes_);
    return (step.budget_bytes - claims_[i].least_bytes + grain_bytes - 1) / grain_bytes;
  }

  std::vector<uint32_t> add_network(size_t i) {
    std::vector<uint64_t> sums(sums_.size(), UINT64_MAX);
    std::vector<uint32_t> chosen_step(sums_.size());
    const std::vector<Step>& steps = step_functions_[i].steps();
    for (uint32_t k = 0; k < steps.size(); ++k) {
      const uint64_t delay_ns = weighted_ns(claims_[i], steps[k].delay_ns);
      const size_t first = grains_of(i, steps[k]);
      for (size_t grains = first; grains < sums.size(); ++grains) {
        const uint64_t sum_ns = sums_[grains - first] + delay_ns;
        if (sum_ns >= sums[grains]) continue;
        sums[grains] = sum_ns;
        chosen_step[grains] = k;
      }
    }
    sums_ = std::move(sums);
    return chosen_step;
  }

  Claims claims_;
  std::span<const StepFunction> step_functions_;
  const uint64_t more_bytes_;
  std::vector<uint64_t> sums_;  // by grains, of the networks so far
};

}  // namespace

uint64_t least_budget_bytes(Claims claims) {
  uint64_t bytes = 0;
  for (const Claim& claim : claims) bytes += claim.least_bytes;
  return bytes;
}

Status check_budget(Claims claims, uint64_t budget_bytes) {
  WP_ASSERT(!claims.empty());
  const uint64_t least_bytes = least_budget_bytes(claims);
  if (budget_bytes >= least_bytes) return {};
  const auto forcing = std::max_element(
      claims.begin(), claims.end(),
      [](const Claim& a, const Claim& b) { return a.least_bytes < b.least_bytes; });
  std::string needs;
  for (const Claim& claim : claims) {
    needs += fmt::format("{}{} {}", needs.empty() ? "" : ", ", claim.name,
                         format_size(claim.least_bytes));
  }
  return fail(
      fmt::format("{} are too few for {}: the least budget is {} ({} bytes: {}). Most of it "
                  "is forced by {}: {}",
                  format_size(budget_bytes),
                  claims.size() == 1 ? "this network" : "these networks together",
                  format_size(least_bytes), least_bytes, needs, forcing->name, forcing->forced_by),
      fmt::format("give --budget {}KiB or more, or fewer networks",
                  round_up(least_bytes, KiB) / KiB));
}

Result<Shares> share_by_score(Claims claims, uint64_t budget_bytes) {
  if (Status enough = check_budget(claims, budget_bytes); !enough) {
    return forward_error(std::move(enough));
  }
  if (all_model_bytes(claims) <= budget_bytes) return whole_models(claims);
  const std::vector<double> weights = weights_of_score(claims);
  std::vector<Limits> limits;
  for (size_t i = 0; i < claims.size(); ++i) {
    limits.push_back({.least_bytes = claims[i].least_bytes,
                      .most_bytes = claims[i].model_bytes,
                      .weight = weights[i] * static_cast<double>(budget_bytes)});
  }
  return fill(limits, budget_bytes);
}

uint64_t weighted_ns(const Claim& claim, uint64_t delay_ns) {
  return static_cast<uint64_t>(static_cast<double>(delay_ns) * claim.weight);
}

Result<JointShares> share_jointly(Claims claims, std::span<const StepFunction> step_functions,
                                  uint64_t budget_bytes, Goal goal) {
  WP_ASSERT(claims.size() == step_functions.size());
  if (Status enough = check_budget(claims, budget_bytes); !enough) {
    return forward_error(std::move(enough));
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    WP_ASSERT(step_functions[i].least_bytes() == claims[i].least_bytes);
    WP_ASSERT(step_functions[i].steps().back().budget_bytes <= claims[i].model_bytes);
  }
  const uint64_t useful_bytes = std::min(budget_bytes, all_model_bytes(claims));
  if (goal == Goal::sum) return LeastSumSharing(claims, step_functions, useful_bytes).run();
  return LeastLargestSharing(claims, step_functions, useful_bytes).run();
}

}  // namespace weightpager::budget
