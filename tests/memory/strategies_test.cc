// Each strategy does what its rule says, on records that are small enough to follow by hand.
#include <gtest/gtest.h>

#include "runtime/memory/minimum_cost_flow.h"
#include "runtime/memory/offsets.h"
#include "runtime/memory/order_search.h"
#include "runtime/memory/shared_objects.h"
#include "runtime/memory/size_improved.h"
#include "runtime/memory/strip_packing.h"

namespace weightpager::memory {
namespace {

using Numbers = std::vector<uint32_t>;
using Offsets = std::vector<uint64_t>;
using ObjectBytes = std::vector<uint64_t>;

TEST(Orders, TiesDecideBetweenEquals) {
  const std::vector<TensorUsage> tensors = {{1, 1, 10}, {0, 0, 30}, {2, 2, 10}, {3, 3, 20}};
  EXPECT_EQ(by_size(tensors, Ties::earlier_first), (Numbers{1, 3, 0, 2}));
  EXPECT_EQ(by_size(tensors, Ties::later_first), (Numbers{1, 3, 2, 0}));
  EXPECT_EQ(by_execution(tensors), (Numbers{1, 0, 2, 3}));
}

TEST(Orders, ByBreadthTakesOperationsAndThenTheirTensors) {
  // Live: 40 at operation 0, 90 at 1, 90 at 2 (without 0), 50 at 3.
  const std::vector<TensorUsage> tensors = {
      {0, 1, 40}, {1, 2, 50}, {2, 2, 20}, {2, 2, 20}, {3, 3, 50}};
  EXPECT_EQ(by_breadth(tensors, Ties::earlier_first, Ties::earlier_first),
            (Numbers{1, 0, 2, 3, 4}));
  EXPECT_EQ(by_breadth(tensors, Ties::later_first, Ties::earlier_first), (Numbers{1, 2, 3, 0, 4}));
  EXPECT_EQ(by_breadth(tensors, Ties::later_first, Ties::later_first), (Numbers{1, 3, 2, 0, 4}));
}

// Objects 0, 1 and 2 hold 100, 60 and 30 when the fourth tensor comes.
std::vector<TensorUsage> three_objects_and_then(uint64_t size_bytes) {
  return {{0, 0, 100}, {0, 0, 60}, {0, 0, 30}, {1, 1, size_bytes}};
}

uint32_t object_of_the_last(uint64_t size_bytes, Fit fit) {
  return share_in_order(three_objects_and_then(size_bytes), {0, 1, 2, 3}, fit).object.back();
}

TEST(SharedObjects, TheChoiceAmongSuitableObjects) {
  EXPECT_EQ(object_of_the_last(20, Fit::largest), 0u);
  EXPECT_EQ(object_of_the_last(20, Fit::tightest), 2u);
  EXPECT_EQ(object_of_the_last(31, Fit::tightest), 1u);
  EXPECT_EQ(object_of_the_last(31, Fit::nearest), 2u);
  EXPECT_EQ(object_of_the_last(45, Fit::nearest), 1u) << "of two that are equally near, the larger";
  EXPECT_EQ(object_of_the_last(101, Fit::tightest), 0u) << "of those too small, the largest";
}

TEST(SharedObjects, AnObjectGrowsForALargerTensor) {
  const auto plan = share_in_order(three_objects_and_then(101), {0, 1, 2, 3}, Fit::nearest);
  EXPECT_EQ(plan.object_bytes, (ObjectBytes{101, 60, 30}));
}

TEST(SharedObjects, TensorsThatMeetInOneOperationAreApart) {
  const std::vector<TensorUsage> chain = {{0, 1, 64}, {1, 2, 64}, {2, 3, 64}};
  EXPECT_EQ(share_in_order(chain, by_execution(chain), Fit::nearest).object, (Numbers{0, 1, 0}));
}

TEST(SizeImproved, WithinAStageTheShortestIdleTimeCounts) {
  // Maxima are 100 and 90; 60 and 50 are one stage. The object of 100 is idle for 2 before 60, for
  // 1 before 50.
  const std::vector<TensorUsage> tensors = {{0, 1, 100}, {0, 0, 90}, {3, 4, 60}, {2, 3, 50}};
  EXPECT_EQ(share_by_size_improved(tensors, {}).object, (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(share_in_order(tensors, by_size(tensors, Ties::earlier_first), Fit::largest).object,
            (Numbers{0, 1, 0, 1}));
}

TEST(SizeImproved, ATensorThatNoObjectSuitsGoesFirstOrLast) {
  // Both of 60 are a stage; the object of 100 suits the later one only.
  const std::vector<TensorUsage> tensors = {{0, 1, 100}, {1, 2, 60}, {4, 4, 60}};
  EXPECT_EQ(share_by_size_improved(tensors, {}).object, (Numbers{0, 1, 1}));
  using Unsuited = SizeImprovedRules::Unsuited;
  EXPECT_EQ(share_by_size_improved(tensors, {.unsuited = Unsuited::last}).object,
            (Numbers{0, 1, 0}));
}

TEST(SizeImproved, IdleTimeMayCountOnBothSides) {
  // 50 is 1 before what the second object holds, and 2 after what the first does.
  const std::vector<TensorUsage> tensors = {{0, 1, 100}, {4, 5, 90}, {5, 5, 100}, {3, 3, 50}};
  EXPECT_EQ(share_by_size_improved(tensors, {}).object, (Numbers{0, 1, 0, 1}));
  using Idle = SizeImprovedRules::Idle;
  EXPECT_EQ(share_by_size_improved(tensors, {.idle = Idle::before}).object, (Numbers{0, 1, 0, 0}));
}

TEST(MinimumCostFlow, PaysForWhatObjectsGrow) {
  // 50 after 40 and 38 after 30 cost 10 + 8; the other way round it is 20 + 0.
  const std::vector<TensorUsage> tensors = {{0, 0, 40}, {0, 0, 30}, {1, 1, 50}, {1, 1, 38}};
  const auto plan = share_by_minimum_cost_flow(tensors);
  EXPECT_EQ(plan.object, (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(plan.object_bytes, (ObjectBytes{50, 38}));
}

TEST(MinimumCostFlow, AnObjectIsAsLargeAsTheTensorBefore) {
  // After 10 in the object of 100, the next 100 would be paid for again; 10 in a new one is
  // cheaper.
  const std::vector<TensorUsage> chain = {{0, 0, 100}, {1, 1, 10}, {2, 2, 100}};
  EXPECT_EQ(share_by_minimum_cost_flow(chain).total_bytes(), 110u);
}

TEST(Offsets, TakeTheSmallestGapThatFits) {
  // Placed in the order 0, 1, 3, 2, 4: 3 where 1 was before, and 4 between 3 and 2.
  const std::vector<TensorUsage> tensors = {
      {0, 9, 100}, {0, 1, 40}, {0, 9, 30}, {5, 9, 35}, {5, 9, 5}};
  const OffsetPlan plan = place_in_order(tensors, by_size(tensors, Ties::earlier_first));
  EXPECT_EQ(plan.offset_bytes, (Offsets{0, 100, 140, 100, 135}));
  EXPECT_EQ(plan.total_bytes, 170u);
}

TEST(Offsets, OfTensorsThatMeetInOneOperationAreApart) {
  const std::vector<TensorUsage> chain = {{0, 1, 64}, {1, 2, 64}, {2, 3, 64}};
  EXPECT_EQ(place_in_order(chain, by_execution(chain)).offset_bytes, (Offsets{0, 64, 0}));
}

TEST(StripPacking, FillsTheLowestPartWithWhatLivesLongest) {
  // 1 lives longest, on the ground. 0 and 2 are left and right of it; on 0, which is lower than 1,
  // nothing fits any more, so it is lifted; 3 goes onto 2.
  const std::vector<TensorUsage> tensors = {{0, 1, 10}, {2, 5, 30}, {6, 7, 20}, {6, 7, 5}};
  const OffsetPlan plan = pack_strip(tensors, StripTies::earlier_first);
  EXPECT_EQ(plan.offset_bytes, (Offsets{0, 0, 0, 20}));
  EXPECT_EQ(plan.total_bytes, 30u);
  EXPECT_EQ(pack_strip(tensors, StripTies::later_first).offset_bytes, (Offsets{0, 0, 5, 0}));
  EXPECT_EQ(pack_strip(tensors, StripTies::larger_first).offset_bytes, (Offsets{0, 0, 0, 20}));
}

const std::vector<TensorUsage> five = {{0, 2, 40}, {4, 6, 40}, {2, 4, 30}, {2, 3, 20}, {4, 5, 20}};

TEST(OrderSearch, EndsAtTheFirstPlanThatIsEnough) {
  const Order order = by_size(five, Ties::earlier_first);
  const uint64_t begun_with = place_in_order(five, order).total_bytes;
  EXPECT_EQ(place_by_swaps(five, order, begun_with, 1000).trials, 1u);
}

TEST(OrderSearch, OfEquallyLargeBlocksKeepsTheOneInWhichSomethingElseIsLeast) {
  const std::vector<TensorUsage> two = {{0, 1, 20}, {1, 2, 20}};
  const Order order = by_size(two, Ties::earlier_first);
  const auto search = place_by_swaps(two, order, 40, 50, {},
                                     [](const OffsetPlan& plan) { return plan.offset_bytes[1]; });
  EXPECT_EQ(search.plan.offset_bytes, (Offsets{20, 0}));
  EXPECT_EQ(search.plan.total_bytes, 40u);
  EXPECT_EQ(search.trials, 50u) << "it goes on, though 40 are enough";
}

TEST(OrderSearch, PassesOverWhatStays) {
  // The first stays at 30, so the others lie below and above it.
  const std::vector<TensorUsage> three = {{0, 1, 10}, {0, 1, 30}, {0, 1, 20}};
  const Earlier<OffsetPlan> earlier = {{{30, 0, 0}, 40}, {true, false, false}};
  const auto search = place_by_swaps(three, by_size(three, Ties::earlier_first), 0, 20, earlier);
  EXPECT_EQ(search.plan.offset_bytes, (Offsets{30, 0, 40}));
  EXPECT_EQ(search.plan.total_bytes, 60u);
}

TEST(SharedObjects, PassOverWhatStays) {
  const std::vector<TensorUsage> three = {{0, 1, 10}, {2, 3, 30}, {0, 1, 20}};
  const Earlier<SharedObjectsPlan> earlier = {{{0, 0, 0}, {10}}, {true, false, false}};
  const auto in_order = share_in_order(three, by_execution(three), Fit::tightest, earlier);
  EXPECT_EQ(in_order.object, (Numbers{0, 1, 1}));
  EXPECT_EQ(in_order.object_bytes, (ObjectBytes{10, 30}));
  // Size improved takes the object that is there for the largest, and it grows.
  const auto improved = share_by_size_improved(three, {}, earlier);
  EXPECT_EQ(improved.object, (Numbers{0, 0, 1}));
  EXPECT_EQ(improved.object_bytes, (ObjectBytes{30, 20}));
}

TEST(OrderSearch, StopsAfterSoManyTrials) {
  const Order order = by_size(five, Ties::earlier_first);
  EXPECT_EQ(place_by_swaps(five, order, 0, 7).trials, 7u);
}

}  // namespace
}  // namespace weightpager::memory
