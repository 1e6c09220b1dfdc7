// The policy against its promises: bytes per pass, no window overrun, order learned, no thread left
// waiting.
#include "pager/policy/pin_stream.h"

#include <gtest/gtest.h>
// After gtest: it uses its macros.
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "pager/base/units.h"
#include "pager/policy/baselines/demand_paging.h"
#include "tests/policy/simulation.h"
#include "tests/policy/two_halves.h"

namespace weightpager::policy {
namespace {

using Chunks = std::vector<ChunkId>;
using Pace = std::vector<float>;

// All chunks are cyclic, in the order of their numbers.
struct Cyclic : Simulation {
  Cyclic(uint32_t chunks, uint32_t window) : Simulation(chunks, window) {
    policy.set_order({.cyclic = range(0, chunks), .revisited = {}});
  }
};

TEST(PinStream, ReadsOnlyTheStreamedShareOncePinnedShareIsIn) {
  Cyclic it(1000, 250);
  const Chunks order = Simulation::range(0, 1000);
  it.pass(order);
  it.pass(order);
  for (int pass = 0; pass < 3; ++pass) {
    const auto counts = it.pass(order);
    // Each streamed chunk once; the ends of a pass may count some of its neighbour's.
    EXPECT_LE(counts.reads, 1000 - it.policy.pinned_chunks() + it.policy.ring_chunks());
    EXPECT_GE(counts.reads + it.policy.ring_chunks(), 1000 - it.policy.pinned_chunks());
  }
  EXPECT_EQ(it.policy.ring_chunks(), 62u);
  EXPECT_EQ(it.policy.pinned_chunks(), 250u - 62u);
}

template <typename Kind>
class SlotsToCome : public testing::Test {};
using PinStreamAndABase = testing::Types<PinStream, DemandPaging>;
TYPED_TEST_SUITE(SlotsToCome, PinStreamAndABase);

// Threads wait for each of them longer than a read takes.
TYPED_TEST(SlotsToCome, AreWorthWaitingForAndNothingGoesMeanwhile) {
  for (const bool keeps_slot : {true, false}) {
    SimulationOf<TypeParam> it(100, 110, {}, keeps_slot, 8);
    it.policy.set_order({.cyclic = it.range(0, 100), .revisited = {}});
    it.table.expect_slots(true);
    EXPECT_EQ(it.pass(it.range(0, 100)).reads, 100u);
    EXPECT_EQ(it.pass(it.range(0, 100)).reads, 0u);
    EXPECT_EQ(it.counts.evictions, 0u);
  }
}

TYPED_TEST(SlotsToCome, AreNotWaitedForWhereNoneCome) {
  SimulationOf<TypeParam> it(100, 110, {}, true, 20);
  it.policy.set_order({.cyclic = it.range(0, 100), .revisited = {}});
  for (int pass = 0; pass < 3; ++pass) it.pass(it.range(0, 100));
  EXPECT_GE(it.counts.evictions, 3 * 80u - 20u);
}

// Distances are meant in bytes.
TEST(PinStream, TheRingIsAsLongInSmallChunks) {
  for (const uint64_t window_bytes : {32 * MiB, 256 * MiB, 2 * GiB}) {
    std::vector<uint64_t> ring_bytes;
    for (const uint64_t chunk_bytes : {2 * MiB, 128 * KiB}) {
      const auto chunks = static_cast<uint32_t>(4 * GiB / chunk_bytes);
      Simulation it(chunks, static_cast<uint32_t>(window_bytes / chunk_bytes),
                    {.chunk_bytes = chunk_bytes});
      it.policy.set_order({.cyclic = Simulation::range(0, chunks), .revisited = {}});
      ring_bytes.push_back(it.policy.ring_chunks() * chunk_bytes);
    }
    EXPECT_EQ(ring_bytes[0], ring_bytes[1]) << window_bytes;
  }
}

TEST(PinStream, SmallChunksAreReadAheadAsFar) {
  Simulation it(4096, 1024, {.chunk_bytes = 128 * KiB, .reads_max = 256});
  const Chunks order = Simulation::range(0, 4096);
  it.policy.set_order({.cyclic = order, .revisited = {}});
  it.touch(0);
  it.touch(1);
  // 8 MiB at first, and more with each step that goes on.
  EXPECT_GE(it.counts.reads, 64u);
  for (int pass = 0; pass < 2; ++pass) it.pass(order);
  EXPECT_EQ(it.pass(order).demand_reads, 0u);
}

TEST(PinStream, SteadyReadsAverageExactlyTheStreamedShare) {
  Cyclic it(400, 160);
  const Chunks order = Simulation::range(0, 400);
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  const uint64_t before = it.counts.reads;
  for (int pass = 0; pass < 20; ++pass) it.pass(order);
  const double reads_per_pass = static_cast<double>(it.counts.reads - before) / 20;
  EXPECT_NEAR(reads_per_pass, 400 - it.policy.pinned_chunks(), 4);
}

// Weights that the engine has copied: half of the order is not used again.
TEST(PinStream, WhatWasOnlyUsedWhileLoadingLeavesTheWindow) {
  Cyclic it(400, 160);
  it.pass(Simulation::range(0, 400));
  it.policy.set_order({.cyclic = Simulation::range(0, 400), .is_load_over = true});
  const Chunks used = Simulation::range(200, 400);
  for (int pass = 0; pass < 4; ++pass) it.pass(used);
  for (ChunkId chunk = 0; chunk < 200; ++chunk) EXPECT_FALSE(it.policy.is_pinned(chunk)) << chunk;
  EXPECT_LE(it.pass(used).reads, 200 - it.policy.pinned_chunks() + 4);
}

TEST(PinStream, SteadyPassesHaveNoDemandReads) {
  Cyclic it(400, 160);
  const Chunks order = Simulation::range(0, 400);
  for (int pass = 0; pass < 2; ++pass) it.pass(order);
  for (int pass = 0; pass < 5; ++pass) EXPECT_EQ(it.pass(order).demand_reads, 0u);
}

TEST(PinStream, ASmallWindowReadsAheadToo) {
  for (uint32_t window : {16u, 20u, 32u, 48u}) {
    Cyclic it(500, window);
    const Chunks order = Simulation::range(0, 500);
    for (int pass = 0; pass < 3; ++pass) it.pass(order);
    EXPECT_LE(it.pass(order).demand_reads, 5u) << "window " << window;
  }
}

TEST(PinStream, EverythingFitsMeansEverythingIsReadOnce) {
  Cyclic it(300, 330);
  const Chunks order = Simulation::range(0, 300);
  EXPECT_EQ(it.pass(order).reads, 300u);
  const auto counts = it.pass(order);
  EXPECT_EQ(counts.reads, 0u);
  EXPECT_EQ(counts.faults, 0u);
  EXPECT_EQ(it.counts.evictions, 0u);
}

TEST(PinStream, LittleMissingMeansLittleRead) {
  Cyclic it(300, 298);
  const Chunks order = Simulation::range(0, 300);
  it.pass(order);
  it.pass(order);
  EXPECT_LE(it.pass(order).reads, 16u);
}

TEST(PinStream, PinsAreSpreadEvenly) {
  Cyclic it(1000, 564);
  const Chunks order = Simulation::range(0, 1000);
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  // With half of the order pinned, no four neighbours are all streamed.
  uint32_t absent_in_a_row = 0;
  for (ChunkId chunk = 0; chunk < 900; ++chunk) {
    absent_in_a_row = it.table.state(chunk) == ChunkState::absent ? absent_in_a_row + 1 : 0;
    EXPECT_LT(absent_in_a_row, 4u) << "at chunk " << chunk;
  }
}

TEST(PinStream, RevisitedChunksArePinnedFirst) {
  Simulation it(200, 60);
  it.policy.set_order({.cyclic = Simulation::range(0, 200), .revisited = {7, 77, 177}});
  const Chunks order = Simulation::range(0, 200);
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  for (ChunkId chunk : {7u, 77u, 177u}) EXPECT_TRUE(it.table.is_resident(chunk)) << chunk;
}

TEST(PinStream, LearnsAnOrderThatContradictsTheFile) {
  Cyclic it(600, 200);
  Chunks order = Simulation::range(0, 600);
  // Layers of 20 chunks, executed back to front.
  Chunks executed;
  for (int layer = 29; layer >= 0; --layer) {
    executed.insert(executed.end(), order.begin() + layer * 20, order.begin() + layer * 20 + 20);
  }
  for (int pass = 0; pass < 3; ++pass) it.pass(executed);
  EXPECT_EQ(it.policy.statistics().order_corrections, 1u);
  const auto counts = it.pass(executed);
  EXPECT_LE(counts.demand_reads, 6u);
  EXPECT_LE(counts.reads, 600 - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

// Of a layer of 34 chunks PyTorch's matrices as files have them, sorted by name: the last third is
// used first, and two threads walk through each matrix, half of it apart.
Chunks matrices_in_an_order_of_their_own(uint32_t layers) {
  constexpr ChunkId layer_chunks = 34;
  const std::vector<std::pair<ChunkId, ChunkId>> matrices = {{23, 33}, {3, 13}, {13, 23}, {0, 3}};
  Chunks executed;
  for (ChunkId begin = 0; begin < layers * layer_chunks; begin += layer_chunks) {
    for (const auto& [first, end] : matrices) {
      const ChunkId half = (end - first) / 2;
      for (ChunkId at = 0; at < half; ++at) {
        executed.push_back(begin + first + at);
        executed.push_back(begin + first + half + at);
      }
      if ((end - first) % 2 != 0) executed.push_back(begin + end - 1);
    }
    executed.push_back(begin + 33);
  }
  return executed;
}

TEST(PinStream, LearnsTheOrderInsideLayers) {
  const Chunks executed = matrices_in_an_order_of_their_own(15);
  for (const uint32_t window : {60u, 125u, 255u}) {
    Cyclic it(510, window);
    for (int pass = 0; pass < 4; ++pass) it.pass(executed);
    const auto counts = it.pass(executed);
    EXPECT_LE(counts.demand_reads, 6u) << window;
    EXPECT_LE(counts.reads, 510 - it.policy.pinned_chunks() + it.policy.ring_chunks()) << window;
  }
}

// Each matrix ends in the chunk in which the next one of the file begins, and the engine takes them
// by name. So it comes to such a chunk twice, further apart than the ring is long, and there are
// more of these chunks than pins. A pass reads them once, and so it does where the engine looked at
// all of them while it loaded.
TEST(PinStream, WhatTwoMatricesShareIsReadOnce) {
  constexpr ChunkId layers = 15;
  constexpr ChunkId layer_chunks = 34;
  const std::vector<std::pair<ChunkId, ChunkId>> by_name = {{24, 34}, {4, 14}, {14, 24}, {0, 4}};
  Chunks executed, shared;
  for (ChunkId begin = 0; begin < layers * layer_chunks; begin += layer_chunks) {
    for (const auto& [first, last] : by_name) {
      for (ChunkId at = first; at <= last; ++at) executed.push_back(begin + at);
    }
    for (ChunkId border : {4, 14, 24, 34}) shared.push_back(begin + border);
  }
  shared.pop_back();  // nothing lies behind the last chunk
  const ChunkId chunks = layers * layer_chunks + 1;
  for (const uint32_t window : {61u, 125u, 255u}) {
    for (const bool looks_around : {false, true}) {
      Simulation it(chunks, window);
      it.policy.set_order({.cyclic = Simulation::range(0, chunks), .shared = shared});
      if (looks_around) it.pass(shared);
      for (int pass = 0; pass < 8; ++pass) it.pass(executed);
      const auto counts = it.pass(executed);
      EXPECT_LE(counts.demand_reads, 3u) << window << looks_around;
      EXPECT_LE(counts.reads, chunks - window + it.policy.ring_chunks() + 4)
          << window << looks_around;
    }
  }
}

// Unpacked matrices: each is walked through again and again before the next one's turn, and its
// last chunk holds the beginning of the next.
Chunks matrices_walked_through_again(uint32_t matrices) {
  constexpr ChunkId matrix_chunks = 8;
  Chunks executed;
  for (ChunkId first = 0; first < matrices * matrix_chunks; first += matrix_chunks) {
    for (int walk = 0; walk < 6; ++walk) {
      for (ChunkId at = 0; at <= matrix_chunks; ++at) executed.push_back(first + at);
    }
  }
  return executed;
}

TEST(PinStream, WhatIsWalkedThroughAgainStaysUntilItsLastWalk) {
  const Chunks executed = matrices_walked_through_again(64);
  for (const uint32_t window : {61u, 82u, 128u, 256u}) {
    Cyclic it(513, window);
    for (int pass = 0; pass < 4; ++pass) it.pass(executed);
    const auto counts = it.pass(executed);
    EXPECT_LE(counts.demand_reads, 6u) << window;
    EXPECT_LE(counts.reads, 513 - it.policy.pinned_chunks() + it.policy.ring_chunks()) << window;
  }
}

// One thread that looks far ahead for a moment does not take the others with it.
TEST(PinStream, ASingleLeapIsNotFollowed) {
  Cyclic it(600, 128);
  const Chunks order = Simulation::range(0, 600);
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  const auto before = it.counts;
  for (ChunkId chunk = 0; chunk < 600; ++chunk) {
    it.touch(chunk);
    if (chunk == 300) it.touch(355);
  }
  EXPECT_LE(it.counts_since(before).demand_reads, 2u);
}

// Where a matrix was found that every pass goes through, its place is known by the last touch that
// was seen before it. A chunk that the order has behind the matrix, and that is touched before it,
// does not take the cursor over the matrix: nothing of it would be there when the engine comes.
TEST(PinStream, AMatrixALittleTooEarlyInTheOrderIsReadOnce) {
  const Chunks executed = Simulation::range(0, 1000);
  Chunks known = executed;
  const auto begin = known.begin() + 500;
  std::rotate(begin - 15, begin, begin + 72);  // the matrix has 72 chunks
  for (const uint32_t window : {500u, 720u, 850u}) {
    Simulation it(1000, window);
    it.policy.set_order({.cyclic = executed,
                         .revisited = {},
                         .access_profile = {.order = known, .computed_ns = Pace(1000, 0)}});
    for (int pass = 0; pass < 4; ++pass) it.pass(executed);
    const auto before = it.counts;
    for (int pass = 0; pass < 16; ++pass) it.pass(executed);
    EXPECT_LE(it.counts_since(before).reads, 16 * (1000 - it.policy.pinned_chunks())) << window;
    EXPECT_EQ(it.counts_since(before).demand_reads, 0u) << window;
  }
}

// An engine that looks at a few places all over the model while it loads has not made a pass.
TEST(PinStream, LoadingIsNoPass) {
  const Chunks executed = matrices_in_an_order_of_their_own(15);
  Cyclic it(510, 125);
  for (ChunkId chunk = 0; chunk < 510; chunk += 5) it.touch(chunk);
  for (int pass = 0; pass < 4; ++pass) it.pass(executed);
  const auto counts = it.pass(executed);
  EXPECT_LE(counts.demand_reads, 6u);
  EXPECT_LE(counts.reads, 510 - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

TEST(PinStream, SmallDisorderIsNoContradiction) {
  Cyclic it(400, 100);
  Chunks order = Simulation::range(0, 400);
  for (size_t i = 0; i + 1 < order.size(); i += 2) std::swap(order[i], order[i + 1]);
  for (int pass = 0; pass < 4; ++pass) it.pass(order);
  EXPECT_EQ(it.policy.statistics().order_corrections, 0u);
  EXPECT_LE(it.pass(order).demand_reads, 4u);
}

TEST(PinStream, UntouchedChunksAreNoLongerRead) {
  Cyclic it(500, 150);
  const Chunks used = Simulation::range(120, 500);  // the first 120 are an embedding table, say
  for (int pass = 0; pass < 5; ++pass) it.pass(used);
  const auto counts = it.pass(used);
  EXPECT_LE(counts.reads, 380 - it.policy.pinned_chunks() + it.policy.ring_chunks());
  EXPECT_EQ(it.policy.follower().order().size(), 380u);
}

// Loading shows the order of memory, and the engine computes in another one.
TEST(PinStream, LearnsToGoToAndFroBetweenTwoHalves) {
  for (const uint32_t window : {60u, 80u, 120u, 160u}) {
    Cyclic it(304, window);
    const Chunks executed = two_halves_in_turn(304, 16);
    it.pass(Simulation::range(0, 304));
    for (int pass = 0; pass < 6; ++pass) it.pass(executed);
    const auto counts = it.pass(executed);
    EXPECT_LE(counts.demand_reads, 6u) << window;
    EXPECT_LE(counts.reads, 304 - it.policy.pinned_chunks() + it.policy.ring_chunks()) << window;
  }
}

// Weights that the engine has copied stay out of the window when its order is learned once more.
TEST(PinStream, WhatIsNotUsedIsNotReadAgainWhileAnotherOrderIsLearned) {
  Cyclic it(600, 120);
  it.pass(Simulation::range(0, 600));
  it.policy.set_order({.cyclic = Simulation::range(0, 600), .is_load_over = true});
  for (int pass = 0; pass < 5; ++pass) it.pass(Simulation::range(300, 600));
  ASSERT_EQ(it.policy.follower().order().size(), 300u);
  std::vector<bool> has_stayed;  // nothing needs its room
  for (ChunkId chunk = 0; chunk < 300; ++chunk) has_stayed.push_back(it.table.is_resident(chunk));
  Chunks executed;
  for (ChunkId chunk : two_halves_in_turn(300, 20)) executed.push_back(300 + chunk);
  for (int pass = 0; pass < 8; ++pass) {
    it.pass(executed);
    for (ChunkId chunk = 0; chunk < 300; ++chunk) {
      EXPECT_LE(it.table.is_resident(chunk), has_stayed[chunk]) << chunk << " in pass " << pass;
    }
  }
  EXPECT_LE(it.pass(executed).demand_reads, 6u);
}

TEST(PinStream, WhatIsUsedAgainAfterAWhileIsReadAheadAgain) {
  Cyclic it(600, 120);
  it.pass(Simulation::range(0, 600));
  it.policy.set_order({.cyclic = Simulation::range(0, 600), .is_load_over = true});
  for (int pass = 0; pass < 5; ++pass) it.pass(Simulation::range(300, 600));
  ASSERT_EQ(it.policy.follower().order().size(), 300u);
  const Chunks all = Simulation::range(0, 600);
  for (int pass = 0; pass < 6; ++pass) it.pass(all);
  const auto counts = it.pass(all);
  EXPECT_LE(counts.demand_reads, 6u);
  EXPECT_LE(counts.reads, 600 - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

TEST(PinStream, SparseChunksAreServedOnDemandWithinTheirShare) {
  Simulation it(600, 200);
  it.policy.set_order({.cyclic = Simulation::range(100, 600), .revisited = {}});
  const Chunks order = Simulation::range(100, 600);
  std::mt19937 random(7);
  for (int pass = 0; pass < 30; ++pass) {
    it.touch(random() % 100);
    it.pass(order);
  }
  uint32_t sparse_resident = 0;
  for (ChunkId chunk = 0; chunk < 100; ++chunk) sparse_resident += it.table.is_resident(chunk);
  EXPECT_LE(sparse_resident, 8u);
  EXPECT_LE(it.pass(order).demand_reads, 1u);
}

TEST(PinStream, ASparseChunkInConstantUseStays) {
  Simulation it(600, 200);
  it.policy.set_order({.cyclic = Simulation::range(100, 600), .revisited = {}});
  const Chunks order = Simulation::range(100, 600);
  for (int pass = 0; pass < 12; ++pass) {
    it.touch(5);
    it.touch(20 + pass);  // and others that come once
    it.pass(order);
  }
  const uint64_t before = it.counts.demand_reads;
  it.touch(5);
  EXPECT_EQ(it.counts.demand_reads, before);
}

TEST(PinStream, ShrinksAtOnceAndGrowsAgain) {
  Cyclic it(400, 200);
  const Chunks order = Simulation::range(0, 400);
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  it.table.set_resident_max(80);
  it.policy.on_resized();
  it.shrink();
  it.pass(order);
  it.table.set_resident_max(200);
  it.policy.on_resized();
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  EXPECT_LE(it.pass(order).reads, 400 - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

TEST(PinStream, AChunkThatTheKernelKeepsIsLeftAloneForAWhile) {
  Cyclic it(100, 20);
  const Chunks order = Simulation::range(0, 100);
  it.kept_by_the_kernel = {10, 11, 12};
  for (int pass = 0; pass < 5; ++pass) it.pass(order);
  for (ChunkId chunk : {10u, 11u, 12u}) EXPECT_TRUE(it.table.is_resident(chunk)) << chunk;
  EXPECT_LT(it.refusals, 40);
  it.kept_by_the_kernel.clear();
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  EXPECT_LE(it.pass(order).reads, 100 - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

// PyTorch may write to the weights that it maps, so they are not hidden. What lies outside the
// order then takes no more of the window than where it can be hidden.
TEST(PinStream, WhatCannotBeHiddenGoesAllTheSame) {
  Chunks pass = Simulation::range(0, 200);
  for (ChunkId row = 210; row < 240; row += 3) pass.push_back(row);
  const auto reads_of_last_pass = [&](bool can_hide) {
    Simulation it(300, 60);
    it.policy.set_order({.cyclic = Simulation::range(0, 200)});
    it.can_hide = can_hide;
    for (int i = 0; i < 2; ++i) it.pass(pass);
    return it.pass(pass).reads;
  };
  EXPECT_LE(reads_of_last_pass(false), reads_of_last_pass(true));
}

TEST(PinStream, AdviceBringsChunksIn) {
  Simulation it(100, 40);
  it.policy.set_order({});
  const Chunks advised{3, 50, 51};
  it.policy.will_need(advised);
  it.run();
  it.complete_reads(10);
  for (ChunkId chunk : advised) EXPECT_EQ(it.table.state(chunk), ChunkState::ready);
}

TEST(PinStream, AdviceOnEverythingBeginsAPassAndNoMore) {
  Cyclic it(100, 40);
  it.policy.will_need(Simulation::range(0, 100));
  for (int step = 0; step < 200; ++step) {
    it.run();
    it.complete_reads(1);
  }
  EXPECT_LE(it.counts.reads, 40u);
  EXPECT_GE(it.counts.reads, 38u);
  for (ChunkId chunk = 0; chunk < 38; ++chunk) EXPECT_TRUE(it.table.is_resident(chunk)) << chunk;
  // The order is told anew when the engine unmaps a part: what was read ahead still counts.
  it.policy.set_order({.cyclic = Simulation::range(1, 100), .revisited = {}});
  const auto counts = it.pass(Simulation::range(1, 100));
  // 38 of 99 were there; reading goes on across the end of the pass by at most a ring.
  EXPECT_LE(counts.reads, 99 - 38 + it.policy.ring_chunks());
  EXPECT_LE(counts.demand_reads, 1u);
}

// Whatever an engine touches, whatever the window, also while one read hangs for ever (room that it
// promises does not come): every touch of what can be read is served, the window is kept (the
// simulation asserts both), and a cyclic engine pays no more than the whole model per pass.
RC_GTEST_PROP(PinStreamProperty, ServesEveryTouchWithinTheWindow, ()) {
  const auto chunks = *rc::gen::inRange<uint32_t>(1, 200);
  const auto window = *rc::gen::inRange<uint32_t>(16, 120);
  const bool keeps_slot = *rc::gen::arbitrary<bool>();
  const auto cyclic_begin = *rc::gen::inRange<uint32_t>(0, chunks);
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  Simulation it(chunks, window, {}, keeps_slot);
  it.policy.set_order({.cyclic = Simulation::range(cyclic_begin, chunks), .revisited = {}});
  std::mt19937 random(seed);
  if (*rc::gen::arbitrary<bool>()) it.never_read.insert(static_cast<ChunkId>(random() % chunks));
  const auto touch = [&](ChunkId chunk) {
    if (!it.never_read.contains(chunk)) it.touch(chunk);
  };
  ChunkId at = 0;
  for (int step = 0; step < 1500; ++step) {
    switch (random() % 16) {
      case 0:
        at = random() % chunks;
        break;
      case 1:
        touch(random() % chunks);
        break;
      case 2:
        it.policy.consumed(std::vector<ChunkId>{static_cast<ChunkId>(random() % chunks)});
        break;
      default:
        at = (at + 1) % chunks;
    }
    touch(at);
    RC_ASSERT(!::testing::Test::HasFatalFailure());
  }
}

RC_GTEST_PROP(PinStreamProperty, ACyclicEngineNeverPaysMoreThanTheStreamedShare, ()) {
  const auto chunks = *rc::gen::inRange<uint32_t>(40, 600);
  const auto window = *rc::gen::inRange<uint32_t>(16, 600);
  Simulation it(chunks, window);
  const Chunks order = Simulation::range(0, chunks);
  it.policy.set_order({.cyclic = order, .revisited = {}});
  for (int pass = 0; pass < 3; ++pass) it.pass(order);
  const auto counts = it.pass(order);
  RC_ASSERT(counts.reads <= chunks - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

}  // namespace
}  // namespace weightpager::policy
