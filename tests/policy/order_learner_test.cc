// What a pass teaches, and when it is believed.
#include "pager/policy/order_learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/policy/two_halves.h"

namespace weightpager::policy::order_learner_test {
namespace {

using Chunks = std::vector<ChunkId>;
using Doubt = OrderLearner::Doubt;

constexpr uint32_t chunks = 400;
constexpr uint32_t apart_max = 4;

Chunks range(ChunkId first, ChunkId end) {
  Chunks all(end - first);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Somebody who learns the order of an engine that is assumed to go by the numbers of chunks.
struct Pupil {
  Pupil() : learner(order) {
    order.reset(chunks);
    order.install(range(0, chunks));
    learner.reset(chunks);
  }

  /// Returns how many touches it took until a pass was over, or 0 if none was.
  size_t show(const Chunks& touches) {
    for (size_t i = 0; i < touches.size(); ++i) {
      learner.note_touch(touches[i]);
      if (learner.note_order(touches[i])) return i + 1;
    }
    return 0;
  }
  /// The second pass begins as the first one did.
  void show_pass(const Chunks& touches) {
    EXPECT_EQ(show(touches), 0u);
    EXPECT_GT(show(touches), 0u);
  }
  void note_strays(int count) {
    for (int i = 0; i < count; ++i) learner.note_stray();
  }
  void note_cramped(int count, uint32_t linger_wanted = 10) {
    for (int i = 0; i < count; ++i) learner.note_cramped(linger_wanted);
  }

  PassOrder order;
  OrderLearner learner;
};

TEST(OrderLearner, APassIsOverWhenTheEngineIsBackAtWhatItTouchedLongAgo) {
  Pupil it;
  const Chunks pass = range(0, chunks);
  EXPECT_EQ(it.show(pass), 0u);
  EXPECT_TRUE(it.learner.is_learning());
  EXPECT_EQ(it.show(pass), 8u);
  EXPECT_FALSE(it.learner.is_learning());
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
  EXPECT_TRUE(std::ranges::equal(it.learner.seen(), pass));
}

TEST(OrderLearner, LayersBackToFrontContradictTheOrder) {
  Pupil it;
  Chunks pass;
  for (ChunkId layer = 20; layer-- > 0;) {
    for (ChunkId chunk : range(layer * 20, layer * 20 + 20)) pass.push_back(chunk);
  }
  it.show_pass(pass);
  EXPECT_TRUE(it.learner.is_contradicted(apart_max));
  EXPECT_TRUE(std::ranges::equal(it.learner.seen(), pass));
}

// Each leap from one half to the other is less than half an order, and so looks like going forward.
TEST(OrderLearner, GoingToAndFroBetweenTwoHalvesContradictsTheOrder) {
  Pupil it;
  it.show_pass(two_halves_in_turn(chunks, 8));
  EXPECT_TRUE(it.learner.is_contradicted(apart_max));
}

TEST(OrderLearner, BeginningInTheMiddleDoesNot) {
  Pupil it;
  Chunks pass = range(0, chunks);
  std::rotate(pass.begin(), pass.begin() + 150, pass.end());
  it.show_pass(pass);
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
}

TEST(OrderLearner, ThreadsOutOfStepDoNot) {
  Pupil it;
  Chunks pass = range(0, chunks);
  for (size_t i = 0; i + 1 < pass.size(); i += 2) std::swap(pass[i], pass[i + 1]);
  it.show_pass(pass);
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
}

TEST(OrderLearner, HowFarOutOfStepThreadsMayBeIsTheCallersToSay) {
  Pupil it;
  Chunks pass = range(0, chunks);
  for (auto block = pass.begin(); block != pass.end(); block += 20) {
    std::rotate(block, block + 10, block + 20);
  }
  it.show_pass(pass);
  EXPECT_TRUE(it.learner.is_contradicted(apart_max));
  EXPECT_FALSE(it.learner.is_contradicted(20));
}

TEST(OrderLearner, LoadingIsNoPass) {
  Pupil it;
  Chunks places;
  for (ChunkId chunk = 0; chunk < chunks; chunk += 5) places.push_back(chunk);
  EXPECT_EQ(it.show(places), 0u);
  EXPECT_EQ(it.show({0, 5, 10}), 0u);
  EXPECT_EQ(it.show(range(0, chunks)), 0u);
  EXPECT_TRUE(it.learner.is_learning());
}

TEST(OrderLearner, TwoPassesMakeAChunkUnusedAndATouchUsed) {
  Pupil it;
  it.learner.note_untouched(7);
  EXPECT_FALSE(it.learner.is_unused(7));
  it.learner.note_untouched(7);
  EXPECT_TRUE(it.learner.is_unused(7));
  it.learner.note_touch(7);
  EXPECT_FALSE(it.learner.is_unused(7));
}

TEST(OrderLearner, NothingIsDoubtedWhileItLearns) {
  Pupil it;
  it.note_strays(1000);
  EXPECT_EQ(it.learner.doubt(), Doubt::none);
}

TEST(OrderLearner, ManyStraysMakeTheOrderDoubtfulFourTimes) {
  Pupil it;
  for (int time = 0; time < 5; ++time) {
    it.show_pass(range(0, chunks));
    it.note_strays(12);
    EXPECT_EQ(it.learner.doubt(), Doubt::none);
    it.note_strays(1);  // more than one in 32 chunks
    EXPECT_EQ(it.learner.doubt(), time < 4 ? Doubt::order : Doubt::none) << time;
    it.learner.begin_anew();
  }
}

TEST(OrderLearner, FewStraysAmongManyReadsAreForgotten) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.note_strays(12);
  for (uint32_t read = 0; read < chunks; ++read) it.learner.note_arrival();
  it.note_strays(12);
  EXPECT_EQ(it.learner.doubt(), Doubt::none);
}

// One pass like that says little: the window fills, or visits are about to be found.
TEST(OrderLearner, ALongerRingThatPaysInTwoPassesIsAskedForOnce) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.learner.set_ring(15);
  const auto cramped_pass = [&] {
    it.note_cramped(13, 10);
    EXPECT_EQ(it.learner.doubt(), Doubt::none);
    it.learner.end_pass();
  };
  cramped_pass();
  EXPECT_EQ(it.learner.doubt(), Doubt::none);
  EXPECT_EQ(it.learner.linger_wanted(), 0u);
  cramped_pass();
  EXPECT_EQ(it.learner.doubt(), Doubt::ring);
  EXPECT_EQ(it.learner.linger_wanted(), 10u);
  EXPECT_EQ(it.learner.doubt(), Doubt::none);
}

TEST(OrderLearner, ManyMoreCrampedTouchesAskAtOnce) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.learner.set_ring(15);
  it.note_cramped(25);
  EXPECT_EQ(it.learner.doubt(), Doubt::none);
  it.note_cramped(1);
  EXPECT_EQ(it.learner.doubt(), Doubt::ring);
}

// It may have been learned while the engine loaded.
TEST(OrderLearner, AnOrderThatWasCorrectedIsDoubtedBeforeTheRing) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.learner.note_correction();
  it.note_cramped(13);
  EXPECT_EQ(it.learner.doubt(), Doubt::order);
}

// It may have been the order that was wrong, not the ring that was short.
TEST(OrderLearner, InACorrectedOrderThreadsHaveToShowAnewThatTheyAreApart) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.note_cramped(26);
  EXPECT_EQ(it.learner.doubt(), Doubt::ring);
  it.learner.begin_anew();
  it.show_pass(range(0, chunks));
  it.learner.note_correction();
  EXPECT_EQ(it.learner.linger_wanted(), 0u);
  it.note_cramped(26);
  EXPECT_EQ(it.learner.doubt(), Doubt::ring);
}

// Passes with a jump, and without, until the order is doubtful; 0: it is not in twenty passes.
int passes_until_doubt(const std::vector<bool>& has_jump) {
  Pupil it;
  it.show_pass(range(0, chunks));
  for (int pass = 0; pass < 20; ++pass) {
    if (has_jump[static_cast<size_t>(pass) % has_jump.size()]) it.learner.note_jump();
    for (uint32_t read = 0; read < chunks; ++read) it.learner.note_arrival();
    it.learner.end_pass();
    if (it.learner.doubt() == Doubt::order) return pass + 1;
  }
  return 0;
}

TEST(OrderLearner, JumpsThatComeBackMakeTheOrderDoubtful) {
  EXPECT_EQ(passes_until_doubt({true}), 3);
  EXPECT_EQ(passes_until_doubt({true, false}), 7);
  EXPECT_EQ(passes_until_doubt({true, false, false}), 0);
}

// Pinned chunks that cannot be hidden show no touch.
TEST(OrderLearner, AnotherPassThatShowsTooLittleIsNotWaitedForForEver) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.learner.begin_anew();
  it.show(range(0, chunks / 8));
  for (uint32_t read = 0; read < 4 * chunks; ++read) {
    EXPECT_TRUE(it.learner.is_learning());
    it.learner.note_arrival();
  }
  EXPECT_FALSE(it.learner.is_learning());
}

// The engine is watched once more from the middle of a pass on, between two visits of chunk 10.
TEST(OrderLearner, AChunkThatIsVisitedTwiceContradictsNothing) {
  Pupil it;
  it.order.insert({{.behind = 249, .chunk = 10, .is_certain = true}});
  it.show_pass(range(0, chunks));
  it.learner.begin_anew();
  Chunks pass = range(245, 250);
  pass.push_back(10);
  for (ChunkId chunk : range(250, chunks)) pass.push_back(chunk);
  for (ChunkId chunk : range(0, 245)) pass.push_back(chunk);
  it.show_pass(pass);
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
}

// What is mapped and cannot be hidden is passed in silence, and seen one round later.
TEST(OrderLearner, APassWhoseBeginningIsSeenAtItsEndContradictsNothing) {
  Pupil it;
  it.show_pass(range(0, chunks));
  it.learner.begin_anew();
  Chunks pass{100};
  for (ChunkId chunk : range(116, chunks)) pass.push_back(chunk);
  for (ChunkId chunk : range(0, 116)) pass.push_back(chunk);
  it.show(pass);
  it.show(range(116, chunks));
  EXPECT_FALSE(it.learner.is_learning());
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
}

// An engine that loads looks at places all over the model: of the first pass one half counts.
TEST(OrderLearner, AllOfAPassCountsThatIsWatchedOnceMore) {
  Pupil it;
  Chunks pass = range(20, 40);
  for (ChunkId chunk : range(0, 20)) pass.push_back(chunk);
  for (ChunkId chunk : range(40, chunks)) pass.push_back(chunk);
  it.show_pass(pass);
  EXPECT_FALSE(it.learner.is_contradicted(apart_max));
  it.learner.begin_anew();
  it.show_pass(pass);
  EXPECT_TRUE(it.learner.is_contradicted(apart_max));
}

TEST(OrderLearner, LearningAnewShowsEachChunkOnce) {
  Pupil it;
  const auto any = [](ChunkId) { return true; };
  EXPECT_EQ(it.learner.next_unseen(any), window::no_chunk);
  it.show_pass(range(0, chunks));
  it.learner.begin_anew();
  EXPECT_FALSE(it.learner.has_seen(0));
  EXPECT_TRUE(it.learner.seen().empty());
  it.show({0, 1});
  EXPECT_EQ(it.learner.next_unseen(any), 2u);
  EXPECT_EQ(it.learner.next_unseen([](ChunkId chunk) { return chunk >= chunks - 2; }), chunks - 2);
  EXPECT_EQ(it.learner.next_unseen(any), chunks - 1);
  EXPECT_EQ(it.learner.next_unseen(any), window::no_chunk);
}

}  // namespace
}  // namespace weightpager::policy::order_learner_test
