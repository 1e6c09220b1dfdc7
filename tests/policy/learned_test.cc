// What is learned in one run is where the next one begins.
#include "pager/policy/learned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>

#include "pager/policy/reordered.h"
#include "tests/policy/simulation.h"

namespace weightpager::policy::learned_test {
namespace {

using Chunks = std::vector<ChunkId>;

constexpr uint32_t chunks = 400;
constexpr uint32_t window = 120;

class LearningEngine : public SimulationOf<Learned> {
 public:
  /// `order` is what the files say.
  explicit LearningEngine(AccessProfile access_profile, const Chunks& order = range(0, chunks))
      : SimulationOf(chunks, window) {
    policy.set_order({.cyclic = order, .access_profile = std::move(access_profile)});
  }

  /// Half of the model computes ten times as long as the other.
  Counts timed_pass(const Chunks& touched) {
    const Counts before = counts;
    for (ChunkId chunk : touched) {
      policy.on_time(now_ns_);
      touch(chunk);
      now_ns_ += chunk < chunks / 2 ? 100'000 : 1'000'000;
    }
    return counts_since(before);
  }

  Chunks pins() const {
    Chunks pinned;
    for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
      if (policy.is_pinned(chunk)) pinned.push_back(chunk);
    }
    return pinned;
  }

 private:
  uint64_t now_ns_ = 0;
};

Chunks shuffled() {
  Chunks order = LearningEngine::range(0, chunks);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
  return order;
}

TEST(Learned, TheNextRunBeginsWithTheSamePins) {
  const Chunks order = LearningEngine::range(0, chunks);
  LearningEngine first({});
  const Chunks unlearned = first.pins();
  EXPECT_TRUE(first.policy.access_profile().is_empty());
  for (int pass = 0; pass < 5; ++pass) first.timed_pass(order);
  EXPECT_EQ(first.policy.statistics().profiles_learned, 2u);
  ASSERT_NE(first.pins(), unlearned);

  LearningEngine second(first.policy.access_profile());
  EXPECT_EQ(second.pins(), first.pins());
  EXPECT_EQ(second.policy.access_profile().order, first.policy.access_profile().order);
  EXPECT_EQ(second.policy.access_profile().computed_ns, first.policy.access_profile().computed_ns);
  // Two passes confirm it.
  EXPECT_EQ(second.policy.statistics().profiles_learned, 0u);
  for (int pass = 0; pass < 3; ++pass) second.timed_pass(order);
  EXPECT_EQ(second.policy.statistics().profiles_learned, 1u);
  Chunks in_both;
  const Chunks before = first.pins();
  const Chunks after = second.pins();
  std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                        std::back_inserter(in_both));
  EXPECT_GE(100 * in_both.size(), 95 * before.size());
}

TEST(Learned, TheNextRunKnowsAnOrderThatTheFilesDoNotTell) {
  const Chunks order = shuffled();
  LearningEngine first({});
  const auto unprofiled = first.timed_pass(order);
  for (int pass = 0; pass < 5; ++pass) first.timed_pass(order);
  EXPECT_GE(first.policy.statistics().order_corrections, 1u);

  LearningEngine second(first.policy.access_profile());
  const auto profiled = second.timed_pass(order);
  EXPECT_LT(10 * profiled.demand_reads, unprofiled.demand_reads);
  for (int pass = 0; pass < 3; ++pass) second.timed_pass(order);
  EXPECT_EQ(second.policy.statistics().order_corrections, 0u);
}

// Chunks that nobody touches come back with each start, for an engine that does; the pace outlives
// that they go again.
TEST(Learned, UntouchedChunksAreNotForgottenForEver) {
  Chunks order = LearningEngine::range(0, chunks);
  order.erase(order.begin() + 100, order.begin() + 130);
  LearningEngine first({});
  for (int pass = 0; pass < 8; ++pass) first.timed_pass(order);
  const AccessProfile access_profile = first.policy.access_profile();
  EXPECT_EQ(access_profile.order, order);

  LearningEngine second(access_profile);
  EXPECT_EQ(second.policy.access_profile().order, LearningEngine::range(0, chunks));
  for (int pass = 0; pass < 8; ++pass) {
    second.timed_pass(order);
    EXPECT_FALSE(second.policy.access_profile().is_empty()) << "after pass " << pass;
  }
  EXPECT_EQ(second.policy.access_profile().order, order);
}

TEST(Reordered, WhatWasSeenComesAsItWasSeen) {
  EXPECT_EQ(reordered(Chunks{0, 1, 2, 3}, Chunks{3, 2, 1, 0}), (Chunks{3, 2, 1, 0}));
  EXPECT_EQ(reordered(Chunks{0, 1, 2, 3}, Chunks{}), (Chunks{0, 1, 2, 3}));
  EXPECT_EQ(reordered(Chunks{}, Chunks{3, 2}), Chunks{});
  EXPECT_EQ(reordered(Chunks{0, 1, 2, 3}, Chunks{2, 0, 2}), (Chunks{2, 3, 0, 1, 2}));
}

TEST(Reordered, WhatWasNotSeenStaysBehindWhatItFollowed) {
  EXPECT_EQ(reordered(Chunks{9, 1, 2, 3, 4, 5}, Chunks{4, 1}), (Chunks{9, 4, 5, 1, 2, 3}));
  EXPECT_EQ(reordered(Chunks{0, 1, 2}, Chunks{7, 2, 8}), (Chunks{0, 1, 2}));
}

}  // namespace
}  // namespace weightpager::policy::learned_test
