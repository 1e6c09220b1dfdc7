// Plans of tensors: the paper's figures, and that whatever is live at the same time lies apart.
#include "runtime/memory/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "tests/memory/golden_records.h"

namespace weightpager::memory {
namespace {

uint64_t sum_bytes(const std::vector<TensorUsage>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), uint64_t{0},
                         [](uint64_t sum, const TensorUsage& it) { return sum + it.size_bytes; });
}

struct Golden {
  const char* name;
  const std::vector<TensorUsage>& tensors;
  uint64_t sum_bytes;
  uint64_t lower_bound_bytes;
  // Table 2, "greedy by size".
  uint64_t total_bytes;
};

TEST(Plan, TakesWhatThePaperSays) {
  const Golden networks[] = {
      {"MobileNet v1", golden::mobilenet_v1, 20'182'880, 4'816'896, 4'816'896},
      {"MobileNet v2", golden::mobilenet_v2, 27'591'136, 6'021'120, 6'021'120},
      {"DeepLab v3", golden::deeplab_v3, 51'004'496, 4'530'240, 4'878'720},
      {"PoseNet", golden::posenet, 29'943'616, 6'575'904, 6'575'904},
      {"Inception v3", golden::inception_v3, 56'622'432, 8'297'856, 8'297'856},
  };
  for (const Golden& network : networks) {
    const ActivationPlan plan = plan_activations(network.tensors);
    EXPECT_EQ(sum_bytes(network.tensors), network.sum_bytes) << network.name;
    EXPECT_EQ(plan.lower_bound_bytes, network.lower_bound_bytes) << network.name;
    EXPECT_EQ(plan.total_bytes, network.total_bytes) << network.name;
    EXPECT_TRUE(find_overlaps(network.tensors, plan).empty()) << network.name;
  }
}

TEST(Plan, TakesTheSmallestGapThatFits) {
  // Placed in the order 0, 1, 3, 2, 4: 3 where 1 was before, and 4 between 3 and 2.
  const std::vector<TensorUsage> tensors = {
      {0, 9, 100}, {0, 1, 40}, {0, 9, 30}, {5, 9, 35}, {5, 9, 5}};
  const ActivationPlan plan = plan_activations(tensors);
  EXPECT_EQ(plan.offset_bytes, (std::vector<uint64_t>{0, 100, 140, 100, 135}));
  EXPECT_EQ(plan.total_bytes, 170u);
}

TEST(Plan, OfNothingTakesNothing) {
  const ActivationPlan plan = plan_activations({});
  EXPECT_EQ(plan.total_bytes, 0u);
  EXPECT_EQ(plan.lower_bound_bytes, 0u);
}

TEST(Plan, TensorsThatMeetInOneOperationLieApart) {
  const std::vector<TensorUsage> tensors = {{0, 1, 64}, {1, 2, 64}, {2, 3, 64}};
  const ActivationPlan plan = plan_activations(tensors);
  EXPECT_EQ(plan.offset_bytes, (std::vector<uint64_t>{0, 64, 0}));
}

TEST(Plan, OverlapsAreFound) {
  const std::vector<TensorUsage> tensors = {{0, 1, 64}, {1, 2, 64}, {3, 3, 64}};
  const auto overlaps = find_overlaps(tensors, {{0, 63, 1}, 127, 128});
  ASSERT_EQ(overlaps.size(), 1u);
  EXPECT_EQ(overlaps[0].first, 0u);
  EXPECT_EQ(overlaps[0].second, 1u);
  EXPECT_EQ(find_overlaps(tensors, {{0, 64, 0}, 127, 128}).size(), 1u) << "beyond the end";
}

TEST(Plan, OfAnyTensorsIsValidAndBetweenBoundAndSum) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *rc::gen::container<std::vector<TensorUsage>>(rc::gen::map(
        rc::gen::tuple(rc::gen::inRange(0, 40), rc::gen::inRange(0, 12), rc::gen::inRange(0, 1000)),
        [](const std::tuple<int, int, int>& it) {
          const auto [first, length, size] = it;
          return TensorUsage{static_cast<uint32_t>(first), static_cast<uint32_t>(first + length),
                             static_cast<uint64_t>(size)};
        }));
    const ActivationPlan plan = plan_activations(tensors);
    RC_ASSERT(find_overlaps(tensors, plan).empty());
    RC_ASSERT(plan.lower_bound_bytes <= plan.total_bytes);
    RC_ASSERT(plan.total_bytes <= sum_bytes(tensors));
    uint64_t most = 0;
    for (uint32_t operation = 0; operation < 60; ++operation) {
      uint64_t live = 0;
      for (const TensorUsage& tensor : tensors) {
        if (tensor.is_live_with({operation, operation, 0})) live += tensor.size_bytes;
      }
      most = std::max(most, live);
    }
    RC_ASSERT(plan.lower_bound_bytes == most);
  }));
}

}  // namespace
}  // namespace weightpager::memory
