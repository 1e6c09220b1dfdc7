// Whoever is live is found, whatever was put in and in which order.
#include "runtime/memory/live_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/memory/random_records.h"

namespace weightpager::memory {
namespace {

using Numbers = std::vector<uint32_t>;

TEST(LiveIndex, FindsWhoIsLiveInTheOrderInWhichTheyBegin) {
  const std::vector<TensorUsage> tensors = {{4, 9, 1}, {0, 1, 1}, {3, 3, 1}, {0, 4, 1}};
  const LiveIndex index = LiveIndex::of_all(tensors);
  EXPECT_EQ(index.live_within(0, 0), (Numbers{1, 3}));
  EXPECT_EQ(index.live_within(2, 3), (Numbers{3, 2}));
  EXPECT_EQ(index.live_within(4, 4), (Numbers{3, 0}));
  EXPECT_EQ(index.live_within(10, 20), Numbers{});
}

TEST(LiveIndex, OfNobodyIsEmpty) { EXPECT_EQ(LiveIndex::of_all({}).live_within(0, 9), Numbers{}); }

RC_GTEST_PROP(LiveIndexProperty, FindsWhoWasPutInAndNobodyElse, ()) {
  const auto tensors = *any_records(40);
  LiveIndex index(tensors);
  Numbers inside;
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (!*rc::gen::arbitrary<bool>()) continue;
    index.insert(tensor);
    inside.push_back(tensor);
  }
  const auto first = *rc::gen::inRange<uint32_t>(0, 25);
  const auto last = *rc::gen::inRange<uint32_t>(first, 30);
  Numbers expected;
  for (const uint32_t tensor : inside) {
    if (tensors[tensor].is_live_with({first, last, 1})) expected.push_back(tensor);
  }
  Numbers found = index.live_within(first, last);
  std::sort(found.begin(), found.end());
  RC_ASSERT(found == expected);
}

}  // namespace
}  // namespace weightpager::memory
