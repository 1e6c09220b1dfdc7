// What makes a plan wrong is found, and bounds are what they are by definition.
#include "runtime/memory/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>

#include "runtime/memory/bounds.h"
#include "tests/memory/overlaps.h"
#include "tests/memory/random_records.h"

namespace weightpager::memory {
namespace {

const std::vector<TensorUsage> three = {{0, 1, 64}, {1, 2, 64}, {3, 3, 64}};

TEST(Plan, OverlapsOfOffsetsAreFound) {
  EXPECT_TRUE(find_overlaps(three, OffsetPlan{{0, 64, 0}, 128}).empty());
  const auto overlaps = find_overlaps(three, OffsetPlan{{0, 63, 1}, 127});
  ASSERT_EQ(overlaps.size(), 1u);
  EXPECT_EQ(overlaps[0].first, 0u);
  EXPECT_EQ(overlaps[0].second, 1u);
  EXPECT_EQ(find_overlaps(three, OffsetPlan{{0, 64, 0}, 127}).size(), 1u) << "beyond the end";
}

TEST(Plan, OverlapsInObjectsAreFound) {
  EXPECT_TRUE(find_overlaps(three, SharedObjectsPlan{{0, 1, 0}, {64, 64}}).empty());
  const auto overlaps = find_overlaps(three, SharedObjectsPlan{{0, 0, 0}, {64}});
  ASSERT_EQ(overlaps.size(), 1u);
  EXPECT_EQ(overlaps[0].first, 0u);
  EXPECT_EQ(overlaps[0].second, 1u);
  EXPECT_EQ(find_overlaps(three, SharedObjectsPlan{{0, 1, 1}, {64, 63}}).size(), 2u) << "too small";
  EXPECT_EQ(find_overlaps(three, SharedObjectsPlan{{0, 1, 2}, {64, 64}}).size(), 1u)
      << "no such object";
}

TEST(Bounds, OfNothingAreNothing) {
  EXPECT_EQ(offsets_lower_bound_bytes({}), 0u);
  EXPECT_EQ(shared_objects_lower_bound_bytes({}), 0u);
  EXPECT_EQ(unshared_bytes({}), 0u);
}

TEST(Bounds, AreTheMostOfAnyOperation) {
  EXPECT_TRUE(rc::check([] {
    const auto tensors = *any_records(40);
    uint64_t most = 0;
    std::vector<uint64_t> maxima(tensors.size());
    for (uint32_t operation = 0; operation < 40; ++operation) {
      std::vector<uint64_t> sizes;
      for (const TensorUsage& tensor : tensors) {
        const bool is_live =
            tensor.first_operation <= operation && operation <= tensor.last_operation;
        if (is_live) sizes.push_back(tensor.size_bytes);
      }
      std::sort(sizes.begin(), sizes.end(), std::greater<>());
      uint64_t sum = 0;
      for (size_t k = 0; k < sizes.size(); ++k) {
        sum += sizes[k];
        maxima[k] = std::max(maxima[k], sizes[k]);
      }
      most = std::max(most, sum);
    }
    maxima.erase(std::find(maxima.begin(), maxima.end(), 0), maxima.end());
    RC_ASSERT(offsets_lower_bound_bytes(tensors) == most);
    RC_ASSERT(positional_maxima_bytes(tensors) == maxima);
    RC_ASSERT(shared_objects_lower_bound_bytes(tensors) >= most);
    RC_ASSERT(unshared_bytes(tensors) >= shared_objects_lower_bound_bytes(tensors));
  }));
}

}  // namespace
}  // namespace weightpager::memory
