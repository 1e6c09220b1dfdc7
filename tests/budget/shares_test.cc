// Shares of one budget: the paper's numbers, limits, sums to the byte, and the best of all joint
// ones.
#include "runtime/budget/shares.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "pager/base/units.h"
#include "tests/budget/pick.h"

namespace weightpager::budget {
namespace {

constexpr uint64_t ms = 1'000'000;
constexpr uint64_t MB = 1'000'000;

uint64_t sum(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), uint64_t{0});
}

Claim claim(uint64_t model_bytes, uint64_t latency_ns, uint64_t least_bytes = 1) {
  return {.name = "net",
          .model_bytes = model_bytes,
          .least_bytes = least_bytes,
          .latency_ns = latency_ns};
}

/// Equation (1) as the paper prints it: a network's part of all weights, and its score's part of
/// all scores, of which n networks give 1/n. Without the limits that a share has.
std::vector<double> shares_as_printed(const std::vector<Claim>& claims, uint64_t budget_bytes) {
  const auto score = [](const Claim& it) {
    return it.urgency * static_cast<double>(it.latency_ns) / static_cast<double>(it.model_bytes);
  };
  double scores = 0, all_bytes = 0;
  for (const Claim& it : claims) {
    scores += score(it);
    all_bytes += static_cast<double>(it.model_bytes);
  }
  const auto networks = static_cast<double>(claims.size());
  std::vector<double> shares;
  for (const Claim& it : claims) {
    const double by_size = static_cast<double>(it.model_bytes) / all_bytes;
    const double by_score = scores > 0 ? score(it) / scores : by_size;
    shares.push_back(static_cast<double>(budget_bytes) *
                     (by_size * (1 - 1 / networks) + by_score / networks));
  }
  return shares;
}

TEST(Shares, TheEquationAsPrinted) {
  const std::vector<Claim> claims = {claim(300 * MB, 30 * ms), claim(100 * MB, 20 * ms)};
  const auto printed = shares_as_printed(claims, 200 * MB);
  EXPECT_NEAR(printed[0] / MB, 108.333, 0.001);
  EXPECT_NEAR(printed[1] / MB, 91.667, 0.001);
  // No limit is reached.
  const auto shares = share_by_score(claims, 200 * MB);
  ASSERT_TRUE(shares);
  EXPECT_NEAR(static_cast<double>((*shares)[0]), printed[0], 1);
  EXPECT_NEAR(static_cast<double>((*shares)[1]), printed[1], 1);
  EXPECT_EQ(sum(*shares), 200 * MB);
}

TEST(Shares, NobodyGetsMoreThanItsWeights) {
  const std::vector<Claim> claims = {claim(300 * MB, 3 * ms), claim(100 * MB, 200 * ms)};
  const auto printed = shares_as_printed(claims, 200 * MB);
  EXPECT_NEAR(printed[0] / MB, 75.498, 0.001);
  EXPECT_NEAR(printed[1] / MB, 124.502, 0.001);
  EXPECT_EQ(*share_by_score(claims, 200 * MB), (Shares{100 * MB, 100 * MB}));
}

TEST(Shares, UrgencyCountsAsLatency) {
  std::vector<Claim> claims = {claim(300 * MB, 30 * ms), claim(100 * MB, 20 * ms)};
  claims[0].urgency = 2;
  const auto printed = shares_as_printed(claims, 200 * MB);
  EXPECT_NEAR(printed[0] / MB, 125, 0.001);
  EXPECT_NEAR(printed[1] / MB, 75, 0.001);
}

TEST(Shares, EverybodyGetsEverythingWhereItFits) {
  const std::vector<Claim> claims = {claim(300, 1), claim(100, 50)};
  EXPECT_EQ(*share_by_score(claims, 400), (Shares{300, 100}));
  EXPECT_EQ(*share_by_score(claims, 4000), (Shares{300, 100}));
  EXPECT_EQ(*share_by_score(std::vector{claim(300, 5)}, 200), (Shares{200}));
}

// The paper's three sets: VGG-19's budget is set by hand, the others' are by size. Equation (1)
// gives that where scores are as sizes are and VGG-19 has a least budget.
TEST(Shares, ThePapersBudgets) {
  const auto by_size = [](uint64_t mb, uint64_t least_mb = 1) {
    return claim(mb * MB, mb * mb, least_mb * MB);
  };
  const auto in_mb = [](const Shares& shares) {
    std::vector<uint64_t> rounded;
    for (const uint64_t share : shares) rounded.push_back((share + MB / 2) / MB);
    return rounded;
  };
  const std::vector<Claim> self_driving = {by_size(548, 475), by_size(170), by_size(236),
                                           by_size(207)};
  EXPECT_EQ(in_mb(*share_by_score(self_driving, 843 * MB)),
            (std::vector<uint64_t>{475, 102, 142, 124}));
  const std::vector<Claim> road_side = {by_size(548, 520), by_size(170), by_size(170), by_size(236),
                                        by_size(236)};
  EXPECT_EQ(in_mb(*share_by_score(road_side, 1088 * MB)),
            (std::vector<uint64_t>{520, 119, 119, 165, 165}));
  const std::vector<Claim> drone = {by_size(170), by_size(236)};
  EXPECT_EQ(in_mb(*share_by_score(drone, 325 * MB)), (std::vector<uint64_t>{136, 189}));
}

TEST(Shares, TooSmallABudgetNamesTheLeastAndWhoForcesIt) {
  std::vector<Claim> claims = {claim(300 * MiB, 30, 20 * MiB), claim(548 * MiB, 20, 456 * MiB)};
  claims[1].name = "vgg19";
  claims[1].forced_by = "layers 38 and 39";
  const std::vector<StepFunction> stairs = {StepFunction({{20 * MiB, 5}}),
                                            StepFunction({{456 * MiB, 5}})};
  for (const Error& error : {share_by_score(claims, 476 * MiB - 1).error(),
                             share_jointly(claims, stairs, 476 * MiB - 1, Goal::largest).error()}) {
    EXPECT_NE(error.message.find("the least budget is 476.0 MiB (499122176 bytes"),
              std::string::npos)
        << error.message;
    EXPECT_NE(error.message.find("forced by vgg19: layers 38 and 39"), std::string::npos);
    EXPECT_NE(error.hint.find("--budget 487424KiB"), std::string::npos) << error.hint;
  }
  EXPECT_EQ(*share_by_score(claims, 476 * MiB), (Shares{20 * MiB, 456 * MiB}));
  EXPECT_EQ(share_jointly(claims, stairs, 476 * MiB, Goal::largest)->shares,
            (Shares{20 * MiB, 456 * MiB}));
}

// The slow network gets what makes it fast, though it is small and the equation likes the other.
TEST(JointShares, GoWhereTheyHelp) {
  const std::vector<Claim> claims = {claim(100, 10, 10), claim(300, 10, 10)};
  const std::vector<StepFunction> stairs = {StepFunction({{10, 90}, {60, 30}}),
                                            StepFunction({{10, 40}, {200, 35}})};
  const auto joint = share_jointly(claims, stairs, 100, Goal::largest);
  ASSERT_TRUE(joint);
  // 60 and 10 give 30 and 40; nothing makes the second faster in what is left. The rest is by size.
  EXPECT_EQ(joint->target_ns, 40u);
  EXPECT_GE(joint->shares[0], 60u);
  EXPECT_EQ(sum(joint->shares), 100u);
  EXPECT_EQ(share_jointly(claims, stairs, 69, Goal::largest)->target_ns, 90u);
  EXPECT_EQ(share_jointly(claims, stairs, 260, Goal::largest)->target_ns, 35u);
  EXPECT_EQ(share_jointly(claims, stairs, 1000, Goal::largest)->shares, (Shares{100, 300}));
}

// After the slowest is settled, what is left makes the next one faster, not only larger.
TEST(JointShares, AreSettledOneAfterTheOther) {
  const std::vector<Claim> claims = {claim(200, 10, 10), claim(200, 10, 10), claim(900, 10, 10)};
  const std::vector<StepFunction> stairs = {
      StepFunction({{10, 100}}), StepFunction({{10, 80}, {50, 20}}), StepFunction({{10, 60}})};
  const auto joint = share_jointly(claims, stairs, 70, Goal::largest);
  EXPECT_EQ(joint->target_ns, 100u);
  EXPECT_EQ(joint->shares, (Shares{10, 50, 10}));
}

// What makes one network much faster makes the sum small, though the slowest one stays slow.
TEST(JointShares, OfTheLeastSumGoWhereTheyHelpMost) {
  const std::vector<Claim> claims = {claim(200, 10, 10), claim(200, 10, 10)};
  const std::vector<StepFunction> stairs = {StepFunction({{10, 100}, {60, 95}}),
                                            StepFunction({{10, 80}, {60, 20}})};
  const auto of_sum = share_jointly(claims, stairs, 70, Goal::sum);
  EXPECT_EQ(of_sum->shares, (Shares{10, 60}));
  EXPECT_EQ(of_sum->target_ns, 120u);
  const auto of_largest = share_jointly(claims, stairs, 70, Goal::largest);
  EXPECT_EQ(of_largest->shares, (Shares{60, 10}));
  EXPECT_EQ(of_largest->target_ns, 95u);
}

TEST(JointShares, NetworksOfMoreWeightAreToBeFaster) {
  std::vector<Claim> claims = {claim(100, 10, 10), claim(100, 10, 10)};
  const std::vector<StepFunction> stairs = {StepFunction({{10, 50}, {80, 30}}),
                                            StepFunction({{10, 60}, {80, 30}})};
  EXPECT_GE(share_jointly(claims, stairs, 90, Goal::largest)->shares[1], 80u);
  claims[0].weight = 1.5;
  const auto joint = share_jointly(claims, stairs, 90, Goal::largest);
  EXPECT_GE(joint->shares[0], 80u);
  EXPECT_EQ(joint->target_ns, 60u) << "75 otherwise";
}

struct Case {
  std::vector<Claim> claims;
  std::vector<StepFunction> stairs;
  uint64_t budget_bytes = 0;
};

Case any_case() {
  Case it;
  const auto networks = pick(1, 5);
  uint64_t all_bytes = 0, least_bytes = 0;
  for (int i = 0; i < networks; ++i) {
    std::vector<Step> steps = {{pick<uint64_t>(1, 500), pick<uint64_t>(500, 2000)}};
    for (int more = pick(0, 5); more > 0; --more) {
      steps.push_back({steps.back().budget_bytes + pick<uint64_t>(1, 400),
                       steps.back().delay_ns - pick<uint64_t>(1, 100)});
    }
    Claim claim = {.name = "net",
                   .model_bytes = steps.back().budget_bytes + pick<uint64_t>(0, 300),
                   .least_bytes = steps.front().budget_bytes,
                   .latency_ns = pick<uint64_t>(0, 1000),
                   .urgency = *rc::gen::element(1.0, 1.0, 0.25, 3.0, 1.7),
                   .weight = *rc::gen::element(1.0, 1.0, 0.001, 2.5, 1e6 / 7)};
    all_bytes += claim.model_bytes;
    least_bytes += claim.least_bytes;
    it.claims.push_back(claim);
    it.stairs.emplace_back(std::move(steps));
  }
  it.budget_bytes = pick<uint64_t>(least_bytes, all_bytes + 100);
  return it;
}

uint64_t worst_ns(const Case& it, const Shares& shares) {
  uint64_t worst = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    worst = std::max(worst, weighted_ns(it.claims[i], it.stairs[i].delay_ns(shares[i])));
  }
  return worst;
}

uint64_t sum_ns(const Case& it, const Shares& shares) {
  uint64_t sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    sum += weighted_ns(it.claims[i], it.stairs[i].delay_ns(shares[i]));
  }
  return sum;
}

// Of all choices of one step for each network; UINT64_MAX if none fits.
uint64_t least_sum_ns(const Case& it, size_t network, uint64_t left_bytes) {
  if (network == it.claims.size()) return 0;
  uint64_t least = UINT64_MAX;
  for (const Step& step : it.stairs[network].steps()) {
    if (step.budget_bytes > left_bytes) break;
    const uint64_t rest = least_sum_ns(it, network + 1, left_bytes - step.budget_bytes);
    if (rest == UINT64_MAX) continue;
    least = std::min(least, rest + weighted_ns(it.claims[network], step.delay_ns));
  }
  return least;
}

// Of all choices of one step for each network.
uint64_t least_worst_ns(const Case& it, size_t network, uint64_t left_bytes) {
  if (network == it.claims.size()) return 0;
  uint64_t least = UINT64_MAX;
  for (const Step& step : it.stairs[network].steps()) {
    if (step.budget_bytes > left_bytes) break;
    const uint64_t rest = least_worst_ns(it, network + 1, left_bytes - step.budget_bytes);
    least = std::min(least, std::max(rest, weighted_ns(it.claims[network], step.delay_ns)));
  }
  return least;
}

void check_sums_and_limits(const Case& it, const Shares& shares) {
  uint64_t all_bytes = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    RC_ASSERT(shares[i] >= it.claims[i].least_bytes);
    RC_ASSERT(shares[i] <= it.claims[i].model_bytes);
    all_bytes += it.claims[i].model_bytes;
  }
  RC_ASSERT(sum(shares) == std::min(it.budget_bytes, all_bytes));
}

RC_GTEST_PROP(AnyShares, SumToTheBudgetWithinTheirLimits, ()) {
  const Case it = any_case();
  check_sums_and_limits(it, *share_by_score(it.claims, it.budget_bytes));
  for (const Goal goal : {Goal::largest, Goal::sum}) {
    check_sums_and_limits(it, share_jointly(it.claims, it.stairs, it.budget_bytes, goal)->shares);
  }
}

// Between limits, shares are as the equation's are to each other.
RC_GTEST_PROP(AnyShares, AreInProportionBetweenTheirLimits, ()) {
  const Case it = any_case();
  const Shares shares = *share_by_score(it.claims, it.budget_bytes);
  const auto printed = shares_as_printed(it.claims, it.budget_bytes);
  for (size_t a = 0; a < shares.size(); ++a) {
    if (shares[a] <= it.claims[a].least_bytes + 4) continue;
    for (size_t b = 0; b < shares.size(); ++b) {
      if (shares[b] + 4 >= it.claims[b].model_bytes) continue;
      // a could give, b could take: b has as much for its weight, but for a few bytes of rounding.
      const double a_level = (static_cast<double>(shares[a]) - 5) / printed[a];
      const double b_level = (static_cast<double>(shares[b]) + 5) / printed[b];
      RC_ASSERT(a_level <= b_level * (1 + 1e-9));
    }
  }
}

RC_GTEST_PROP(AnyShares, JointOnesAreTheBestOfAll, ()) {
  const Case it = any_case();
  const JointShares joint = *share_jointly(it.claims, it.stairs, it.budget_bytes, Goal::largest);
  RC_ASSERT(joint.target_ns == worst_ns(it, joint.shares));
  RC_ASSERT(joint.target_ns == least_worst_ns(it, 0, it.budget_bytes));
  RC_ASSERT(joint.target_ns <= worst_ns(it, *share_by_score(it.claims, it.budget_bytes)));
}

// To the byte up to a budget of 2047 bytes above the least; beyond, as good as with a few bytes
// less.
RC_GTEST_PROP(AnyShares, JointOnesHaveTheLeastSumOfAll, ()) {
  const Case it = any_case();
  const JointShares joint = *share_jointly(it.claims, it.stairs, it.budget_bytes, Goal::sum);
  RC_ASSERT(joint.target_ns == sum_ns(it, joint.shares));
  const uint64_t useful_bytes =
      std::accumulate(it.claims.begin(), it.claims.end(), uint64_t{0},
                      [](uint64_t bytes, const Claim& claim) { return bytes + claim.model_bytes; });
  const uint64_t budget_bytes = std::min(it.budget_bytes, useful_bytes);
  const uint64_t more_bytes = budget_bytes - least_budget_bytes(it.claims);
  const uint64_t lost_bytes = it.claims.size() * (sum_grain_bytes(more_bytes) - 1);
  RC_TAG(lost_bytes == 0 ? "exact" : "in grains");
  RC_ASSERT(joint.target_ns >= least_sum_ns(it, 0, budget_bytes));
  RC_ASSERT(joint.target_ns <=
            least_sum_ns(it, 0, budget_bytes - std::min(lost_bytes, more_bytes)));
}

RC_GTEST_PROP(AnyShares, TooSmallBudgetsAreRefused, ()) {
  Case it = any_case();
  it.budget_bytes = least_budget_bytes(it.claims) - 1;
  RC_ASSERT(!share_by_score(it.claims, it.budget_bytes).has_value());
  for (const Goal goal : {Goal::largest, Goal::sum}) {
    RC_ASSERT(!share_jointly(it.claims, it.stairs, it.budget_bytes, goal).has_value());
    RC_ASSERT(share_jointly(it.claims, it.stairs, it.budget_bytes + 1, goal).has_value());
  }
  RC_ASSERT(share_by_score(it.claims, it.budget_bytes + 1).has_value());
}

}  // namespace
}  // namespace weightpager::budget
