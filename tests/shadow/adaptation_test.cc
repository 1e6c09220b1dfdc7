// When policies are judged, who takes over, who comes back.
#include "pager/shadow/adaptation.h"

#include <gtest/gtest.h>

namespace weightpager::shadow {
namespace {

using Step = Adaptation::Step;

constexpr uint32_t chunks = 1000;
constexpr uint64_t ms = 1'000'000;

class AdaptationTest : public testing::Test {
 protected:
  AdaptationTest() {
    it_.set_window(300, now_);
    it_.set_chunks(chunks, 0, now_);
  }

  // The engine goes on; of the time it waits for a share.
  void go_on(uint64_t chunks_read, double stall_share = 0.5) {
    const uint64_t elapsed_ns = chunks_read * ms;
    now_.now_ns += elapsed_ns;
    now_.stall_ns += static_cast<uint64_t>(static_cast<double>(elapsed_ns) * stall_share);
    now_.chunks_read += chunks_read;
  }

  // Up to the question.
  void sample(uint64_t wait_ns) {
    ASSERT_EQ(it_.next(now_), Step::sample);
    ASSERT_TRUE(it_.is_sampling());
    now_.touches_sampled = 3 * chunks - 1;
    ASSERT_EQ(it_.next(now_), Step::none);
    ++now_.touches_sampled;
    now_.now_ns += 3 * chunks * 2 * wait_ns;
    now_.stall_ns += 3 * chunks * wait_ns;
  }

  void sample_and_ask(uint64_t wait_ns) {
    sample(wait_ns);
    ASSERT_EQ(it_.next(now_), Step::judge);
    EXPECT_FALSE(it_.is_sampling());
    EXPECT_EQ(it_.next(now_), Step::none);
  }

  Adaptation it_{"expert"};
  AdaptationProgress now_;
};

TEST_F(AdaptationTest, BeginsToLookWhenTheModelWasReadTwice) {
  go_on(2 * chunks - 1);
  EXPECT_EQ(it_.next(now_), Step::none);
  go_on(1);
  EXPECT_EQ(it_.next(now_), Step::sample);
}

TEST_F(AdaptationTest, LeavesAnEngineAloneThatHardlyWaits) {
  for (int i = 0; i < 20; ++i) {
    go_on(2 * chunks, 0.09);
    EXPECT_EQ(it_.next(now_), Step::none);
  }
}

TEST_F(AdaptationTest, LeavesAPolicyAloneThatReadsNoMoreThanIsPossible) {
  it_.set_chunks(chunks, chunks, now_);
  for (int i = 0; i < 20; ++i) {
    now_.passes += 3;
    go_on(3 * (chunks - 300) + 30);
    EXPECT_EQ(it_.next(now_), Step::none);
  }
  // Now it reads more.
  now_.passes += 2;
  go_on(2 * chunks);
  EXPECT_EQ(it_.next(now_), Step::sample);
}

TEST_F(AdaptationTest, KeepsThePolicyThatWins) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "expert"});
  EXPECT_EQ(it_.next(now_), Step::none);
  EXPECT_EQ(it_.policy(), "expert");
  EXPECT_EQ(it_.former_policy(), "");
}

TEST_F(AdaptationTest, LooksHalfAsOftenAfterEachVerdict) {
  for (const uint64_t passes : {2u, 4u, 8u, 16u}) {
    go_on(passes * chunks - 1);
    ASSERT_EQ(it_.next(now_), Step::none);
    go_on(1);
    sample_and_ask(500'000);
    it_.on_verdict({.best = "expert"});
  }
}

TEST_F(AdaptationTest, TheWinnerTakesOverAndStaysIfItProvesBetter) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "lru", .time_ratio = 0.5});
  EXPECT_EQ(it_.next(now_), Step::adopt);
  EXPECT_EQ(it_.policy(), "lru");
  EXPECT_EQ(it_.former_policy(), "expert");
  EXPECT_EQ(it_.former_wait_ns(), 500'000u);
  EXPECT_EQ(it_.wait_ns(), 0u);
  EXPECT_EQ(it_.next(now_), Step::none);
  go_on(chunks);
  sample(300'000);
  EXPECT_EQ(it_.next(now_), Step::end_sample);
  EXPECT_EQ(it_.policy(), "lru");
  EXPECT_EQ(it_.wait_ns(), 300'000u);
  EXPECT_TRUE(it_.refuted().empty());
}

TEST_F(AdaptationTest, AWinnerOnPaperOnlyGoesAgainAndIsNotTriedTwice) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "lru", .time_ratio = 0.5});
  ASSERT_EQ(it_.next(now_), Step::adopt);
  go_on(chunks);
  sample(500'000);
  EXPECT_EQ(it_.next(now_), Step::adopt);
  EXPECT_EQ(it_.policy(), "expert");
  EXPECT_EQ(it_.former_policy(), "");
  ASSERT_EQ(it_.refuted().size(), 1u);
  EXPECT_EQ(it_.refuted()[0], "lru");
  EXPECT_EQ(it_.next(now_), Step::none);
}

// Touches that wait for long come rarely, so their number alone would let a bad trial go on.
TEST_F(AdaptationTest, ATrialEndsWhenItHasCostMoreWaitingThanTheSampleBefore) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "lru", .time_ratio = 0.5});
  ASSERT_EQ(it_.next(now_), Step::adopt);
  go_on(chunks);
  ASSERT_EQ(it_.next(now_), Step::sample);
  now_.touches_sampled = 30;
  now_.stall_ns += 3 * chunks * uint64_t{500'000};
  ASSERT_EQ(it_.next(now_), Step::none);
  now_.stall_ns += 1;
  EXPECT_EQ(it_.next(now_), Step::adopt);
  EXPECT_EQ(it_.policy(), "expert");
  ASSERT_EQ(it_.refuted().size(), 1u);
  EXPECT_EQ(it_.refuted()[0], "lru");
}

TEST_F(AdaptationTest, AnEngineThatLoadsIsLeftAlone) {
  now_.is_memory_growing = true;
  for (int i = 0; i < 3; ++i) {
    go_on(2 * chunks);
    EXPECT_EQ(it_.next(now_), Step::none);
  }
  now_.is_memory_growing = false;
  go_on(2 * chunks);
  EXPECT_EQ(it_.next(now_), Step::sample);
}

// It computes, and takes more memory from time to time.
TEST_F(AdaptationTest, AnEngineWhoseMemoryGrowsForEverIsLookedAt) {
  now_.is_memory_growing = true;
  for (int i = 0; i < 3; ++i) {
    go_on(2 * chunks);
    EXPECT_EQ(it_.next(now_), Step::none);
  }
  go_on(2 * chunks);
  EXPECT_EQ(it_.next(now_), Step::sample);
}

TEST_F(AdaptationTest, OneThatReadsHardlyAnythingIsProvedAfterAWhile) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "lru", .time_ratio = 0.1});
  ASSERT_EQ(it_.next(now_), Step::adopt);
  now_.now_ns += 3 * chunks * 2 * ms - 1;
  EXPECT_EQ(it_.next(now_), Step::none);
  now_.now_ns += 1;
  EXPECT_EQ(it_.next(now_), Step::sample);
}

TEST_F(AdaptationTest, AnotherWindowGivesEveryPolicyANewChance) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.on_verdict({.best = "lru"});
  ASSERT_EQ(it_.next(now_), Step::adopt);
  go_on(chunks);
  sample(500'000);
  ASSERT_EQ(it_.next(now_), Step::adopt);
  ASSERT_FALSE(it_.refuted().empty());
  it_.set_window(320, now_);  // hardly another one
  EXPECT_FALSE(it_.refuted().empty());
  it_.set_window(600, now_);
  EXPECT_TRUE(it_.refuted().empty());
  go_on(2 * chunks);
  EXPECT_EQ(it_.next(now_), Step::sample);
}

TEST_F(AdaptationTest, AVerdictOnWhatIsNoLongerSoIsIgnored) {
  go_on(2 * chunks);
  sample_and_ask(500'000);
  it_.set_window(900, now_);
  it_.on_verdict({.best = "lru", .time_ratio = 0.5});
  EXPECT_EQ(it_.next(now_), Step::none);
  EXPECT_EQ(it_.policy(), "expert");
}

TEST_F(AdaptationTest, NoModelIsNothingToLookAt) {
  it_.set_chunks(0, 0, now_);
  go_on(10 * chunks);
  EXPECT_EQ(it_.next(now_), Step::none);
}

}  // namespace
}  // namespace weightpager::shadow
