// Engines that copy their weights while they load: copies stay, and what was copied goes.
#include "pager/policy/growing_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/policy/simulation.h"

namespace weightpager::policy::growing_memory_test {
namespace {

using Chunks = std::vector<ChunkId>;

// A file, and memory behind it that the engine fills from the file.
constexpr uint32_t file_chunks = 100;
const Chunks file = Simulation::range(0, file_chunks);
const Chunks copies = Simulation::range(file_chunks, 2 * file_chunks);

struct Copying : Simulation {
  explicit Copying(uint32_t window) : Simulation(2 * file_chunks, window) {
    policy.set_order({.cyclic = file});
  }

  void fill(ChunkId chunk) {
    touch(chunk);
    policy.on_growth(chunk);
  }
  // Returns how many copies left the window meanwhile.
  uint32_t load(const Chunks& kept = {}) {
    for (const ChunkId chunk : file) {
      touch(chunk);
      fill(file_chunks + chunk);
    }
    run();
    uint32_t gone = 0;
    for (const ChunkId chunk : copies) gone += !table.is_resident(chunk);
    policy.set_order({.cyclic = range(0, 2 * file_chunks), .kept = kept, .is_load_over = true});
    return gone;
  }
};

TEST(GrowingMemory, AFewChunksAreNoGrowth) {
  GrowingMemory growing;
  growing.reset(20);
  for (ChunkId chunk = 0; chunk < 7; ++chunk) growing.note_new(chunk);
  EXPECT_FALSE(growing.is_growing());
  EXPECT_EQ(growing.spare_chunks(80), 0u);
  growing.note_new(7);
  EXPECT_TRUE(growing.is_growing());
  EXPECT_EQ(growing.spare_chunks(80), 8u);
  EXPECT_EQ(growing.spare_chunks(16), 2u);
  for (int touch = 0; touch < 256; ++touch) growing.note_touch(19);
  EXPECT_FALSE(growing.is_growing());
  growing.note_new(8);
  EXPECT_TRUE(growing.is_growing());
  growing.end(ChunkOrder{});
  EXPECT_FALSE(growing.is_growing());
}

TEST(GrowingMemory, WhatWentIsNotNew) {
  GrowingMemory growing;
  growing.reset(4);
  growing.note_new(2);
  EXPECT_TRUE(growing.is_new(2));
  growing.reset(8);
  EXPECT_TRUE(growing.is_new(2));
  growing.note_evicted(2);
  EXPECT_FALSE(growing.is_new(2));
}

TEST(GrowingMemory, MoreThanWasWrittenWasNotCopied) {
  for (const uint32_t read : {10u, 60u}) {
    GrowingMemory growing;
    growing.reset(100);
    for (ChunkId chunk = 0; chunk < 12; ++chunk) growing.note_new(chunk);
    const Chunks of_file = Simulation::range(20, 20 + read);
    for (const ChunkId chunk : of_file) growing.note_touch(chunk);
    growing.note_touch(3);
    growing.note_touch(12);  // as a chunk is before it is filled
    growing.note_new(12);
    EXPECT_EQ(growing.end({.cyclic = Simulation::range(0, 100)}), read == 10 ? of_file : Chunks());
    EXPECT_EQ(growing.end({.cyclic = Simulation::range(0, 100)}), Chunks());
  }
}

// It is in use, and to let it go first would only bring it back again.
TEST(GrowingMemory, WhatWasFilledAndCameBackIsNoFile) {
  GrowingMemory growing;
  growing.reset(20);
  for (ChunkId chunk = 0; chunk < 12; ++chunk) growing.note_new(chunk);
  growing.note_evicted(3);
  growing.note_touch(3);
  growing.note_touch(15);
  const auto any = [](ChunkId) { return true; };
  EXPECT_EQ(growing.take_oldest_of_file(any, any), 15u);
  EXPECT_EQ(growing.take_oldest_of_file(any, any), window::no_chunk);
  EXPECT_EQ(growing.end({.cyclic = Simulation::range(0, 20)}), Chunks{15});
}

TEST(GrowingMemory, ANumberThatIsAFilesNowIsOfAFile) {
  GrowingMemory growing;
  growing.reset(30);
  for (ChunkId chunk = 0; chunk < 12; ++chunk) growing.note_new(chunk);
  std::vector<bool> is_of_file(12, true);
  growing.reset(30, is_of_file);
  for (ChunkId chunk = 0; chunk < 12; ++chunk) growing.note_touch(chunk);
  EXPECT_EQ(growing.end({.cyclic = Simulation::range(0, 30)}), Simulation::range(0, 12));
}

// An engine that sweeps each of its matrices many times, and reads back what it has written while
// the pager still takes it to be loading (ONNX Runtime).
TEST(CopyingEngine, WhatIsSweptBeforeTheLoadCountsAsOverIsPartOfPasses) {
  for (const uint32_t window : {40u, 50u, 64u}) {
    Copying it(window);
    it.policy.set_order({});
    for (const ChunkId chunk : copies) it.fill(chunk);
    const Chunks first = Simulation::range(file_chunks, file_chunks + 8);
    for (int sweep = 0; sweep < 6; ++sweep) it.pass(first);
    it.policy.set_order({.cyclic = copies, .is_load_over = true});
    const auto pass = [&] {
      const auto before = it.counts;
      for (uint32_t begin = file_chunks; begin < 2 * file_chunks; begin += 8) {
        const Chunks matrix = Simulation::range(begin, std::min(begin + 8, 2 * file_chunks));
        for (int sweep = 0; sweep < 8; ++sweep) it.pass(matrix);
      }
      return it.counts_since(before);
    };
    for (int i = 0; i < 4; ++i) pass();
    const auto counts = pass();
    EXPECT_LE(counts.reads, file_chunks - it.policy.pinned_chunks() + 4) << window;
    EXPECT_LE(counts.demand_reads, 8u) << window;
  }
}

// Beside pins and what is read far ahead, an engine that sweeps has too little room for a matrix.
TEST(CopyingEngine, TheFirstPassReadsAMatrixThatIsSweptOnce) {
  Copying it(64);
  it.load();
  const auto before = it.counts;
  for (int sweep = 0; sweep < 20; ++sweep) it.pass(Simulation::range(140, 164));
  EXPECT_LE(it.counts_since(before).demand_reads, 24u + 12);
  EXPECT_LE(it.counts_since(before).reads, 120u);
  EXPECT_EQ(it.policy.pinned_chunks(), 0u);
  for (int pass = 0; pass < 3; ++pass) it.pass(copies);
  EXPECT_GT(it.policy.pinned_chunks(), 0u);
}

// A longer prompt takes more memory once. That is no load.
TEST(CopyingEngine, PinsOutliveALittleMoreMemory) {
  Copying it(64);
  it.load();
  for (int pass = 0; pass < 4; ++pass) it.pass(copies);
  const uint32_t pinned = it.policy.pinned_chunks();
  EXPECT_GT(pinned, 0u);
  it.table.add_chunks(20);
  it.policy.set_order({.cyclic = Simulation::range(0, 2 * file_chunks)});
  for (ChunkId chunk = 2 * file_chunks; chunk < 2 * file_chunks + 12; ++chunk) it.fill(chunk);
  it.policy.set_order({.cyclic = Simulation::range(0, 2 * file_chunks + 12), .is_load_over = true});
  EXPECT_GE(it.policy.pinned_chunks() + 4, pinned);
}

TEST(CopyingEngine, CopiesThatFitStay) {
  Copying it(110);
  // Those that fit beside what is spare, was just delivered, or is read next.
  const uint32_t gone = it.load();
  EXPECT_LE(gone, 20u);
  // Each chunk once, and a few of the file that were read too far ahead.
  EXPECT_LE(it.counts.reads, 2 * file_chunks + 40);
  EXPECT_LE(it.pass(copies).reads, gone + 2);
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(it.pass(copies).reads, 0u) << pass;
}

TEST(CopyingEngine, NoMoreCopiesLeaveThanDoNotFit) {
  for (const uint32_t window : {32u, 48u, 64u}) {
    Copying it(window);
    // What is spare, was just delivered, or is read next is not theirs.
    EXPECT_LE(it.load(), file_chunks - window + 40) << window;
    for (int pass = 0; pass < 6; ++pass) it.pass(copies);
    const auto counts = it.pass(copies);
    EXPECT_LE(counts.reads, file_chunks - it.policy.pinned_chunks() + 4) << window;
    EXPECT_LE(counts.demand_reads, 4u) << window;
  }
}

// Slots that are still being made are no reason to write anything.
TEST(CopyingEngine, NothingLeavesAWindowThatHasRoom) {
  SimulationOf<PinStream> it(100, 100, {}, true, 4);
  it.policy.set_order({.cyclic = Simulation::range(0, 1)});
  it.table.expect_slots(true);
  for (ChunkId chunk = 1; chunk < 90; ++chunk) {
    it.touch(chunk);
    it.policy.on_growth(chunk);
    it.table.add_slot(3 + chunk);
  }
  EXPECT_EQ(it.counts.evictions, 0u);
}

// All that was read is used again, although as much memory was filled: it was not copied.
TEST(CopyingEngine, AFileThatIsUsedAfterAllIsReadAheadAgain) {
  Copying it(64);
  it.load();
  for (int pass = 0; pass < 8; ++pass) it.pass(file);
  const auto counts = it.pass(file);
  EXPECT_LE(counts.demand_reads, 6u);
  EXPECT_LE(counts.reads, file_chunks - it.policy.pinned_chunks() + it.policy.ring_chunks());
}

TEST(CopyingEngine, TheFewChunksThatAreUsedAfterAllComeBack) {
  Copying it(64);
  it.load();
  Chunks pass = copies;
  for (ChunkId chunk = 90; chunk < 100; ++chunk) pass.push_back(chunk);
  for (int i = 0; i < 8; ++i) it.pass(pass);
  for (ChunkId chunk = 90; chunk < 100; ++chunk)
    EXPECT_TRUE(it.policy.follower().order().contains(chunk));
  for (ChunkId chunk = 0; chunk < 90; ++chunk)
    EXPECT_FALSE(it.policy.follower().order().contains(chunk));
  EXPECT_LE(it.pass(pass).demand_reads, 4u);
}

// … also when that begins only after some passes over the copies.
TEST(CopyingEngine, AFileThatIsUsedLaterIsReadAheadAgain) {
  for (const uint32_t used : {20u, 100u}) {
    Copying it(64);
    it.load();
    for (int pass = 0; pass < 3; ++pass) it.pass(Simulation::range(100, 140));
    Chunks pass = Simulation::range(100, 140);
    for (ChunkId chunk = 0; chunk < used; ++chunk) pass.push_back(chunk);
    for (int i = 0; i < 6; ++i) it.pass(pass);
    EXPECT_LE(it.pass(pass).demand_reads, 6u) << used;
  }
}

TEST(CopyingEngine, WhatWasCopiedStaysOutWhenAnotherOrderIsTold) {
  Copying it(120);
  it.load();
  it.policy.set_order({.cyclic = Simulation::range(0, 2 * file_chunks)});
  for (int pass = 0; pass < 3; ++pass) it.pass(copies);
  EXPECT_EQ(it.pass(copies).reads, 0u);
}

TEST(CopyingEngine, WhatTheUserWantsToStayStays) {
  Copying it(64);
  const Chunks kept = Simulation::range(10, 20);
  it.policy.set_order({.cyclic = file, .kept = kept});
  it.pass(Simulation::range(0, 30));
  it.load(kept);
  for (int pass = 0; pass < 6; ++pass) it.pass(copies);
  for (const ChunkId chunk : kept) {
    EXPECT_TRUE(it.policy.is_pinned(chunk)) << chunk;
    EXPECT_TRUE(it.table.is_resident(chunk)) << chunk;
  }
}

// Memory that is filled again in each pass, such as activations, is no growth.
TEST(CopyingEngine, PinsOutliveMemoryThatIsFilledInEachPass) {
  for (const bool is_told : {false, true}) {
    Copying it(64);
    const auto pass = [&] {
      const auto before = it.counts;
      for (const ChunkId chunk : file) {
        it.touch(chunk);
        if (chunk % 6 == 0) it.fill(100 + chunk / 6);
      }
      if (is_told) it.policy.set_order({.cyclic = file, .is_load_over = true});
      for (ChunkId chunk = 100; chunk < 120; ++chunk) {
        if (it.table.state(chunk) == ChunkState::mapped) it.table.release(chunk);
      }
      return it.counts_since(before);
    };
    for (int i = 0; i < 8; ++i) pass();
    // The 17 that are filled count as reads here.
    EXPECT_LE(pass().reads, 17 + file_chunks - it.policy.pinned_chunks() + it.policy.ring_chunks());
  }
}

// An engine that computes with its file, and fills a chunk now and then.
TEST(CopyingEngine, PinsOutliveACacheThatGrowsSlowly) {
  Copying it(64);
  for (int pass = 0; pass < 3; ++pass) it.pass(file);
  const auto before = it.pass(file);
  for (ChunkId chunk = 100; chunk < 120; ++chunk) {
    it.fill(chunk);
    it.policy.set_order({.cyclic = file, .is_load_over = true});
    for (int pass = 0; pass < 3; ++pass) it.pass(file);
    EXPECT_LE(it.pass(file).reads, before.reads + 8) << chunk;
  }
}

}  // namespace
}  // namespace weightpager::policy::growing_memory_test
