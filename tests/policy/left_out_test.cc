// Chunks that are left out of the order, and what lets them join it.
#include "pager/policy/left_out.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy::left_out_test {
namespace {

using Chunks = std::vector<ChunkId>;
using Joining = LeftOut::Joining;

constexpr uint32_t chunks = 40;

// An order of 40 chunks that has lost its first eight.
struct Losing {
  Losing() {
    Chunks all(chunks);
    std::iota(all.begin(), all.end(), 0u);
    left_out.begin(all, {}, chunks + 4);
    order.reset(chunks + 4);
    order.install(Chunks(all.begin() + 8, all.end()));
    for (ChunkId chunk = 0; chunk < 8; ++chunk) left_out.drop(chunk);
  }
  // Waits for the chunk in each of `passes` passes, of which `apart` others go by between two.
  Joining wait(ChunkId chunk, int passes, int apart = 0) {
    Joining joining = Joining::none;
    for (int pass = 0; pass < passes && joining == Joining::none; ++pass) {
      joining = left_out.note_touch(chunk, true);
      for (int i = 0; i <= apart; ++i) left_out.end_pass();
    }
    return joining;
  }

  LeftOut left_out;
  PassOrder order;
};

TEST(LeftOut, WhatFourPassesInARowWaitForJoinsAgain) {
  Losing it;
  EXPECT_EQ(it.wait(5, 3), Joining::none);
  EXPECT_EQ(it.left_out.note_touch(5, true), Joining::what_came_back);
  EXPECT_EQ(it.left_out.came_back(), Chunks{5});
  it.order.install(it.left_out.join(it.order));
  EXPECT_EQ(it.order.size(), chunks - 8 + 1);
  EXPECT_TRUE(it.order.contains(5));
  EXPECT_EQ(it.left_out.came_back(), Chunks());
}

TEST(LeftOut, WhatOnePassWaitsForOverAndOverJoinsWithItsNeighbours) {
  Losing it;
  Joining joining = Joining::none;
  for (int sweep = 0; sweep < 4; ++sweep) {
    for (ChunkId chunk = 0; chunk < 6 && joining == Joining::none; ++chunk)
      joining = it.left_out.note_touch(chunk, true);
  }
  EXPECT_EQ(joining, Joining::what_came_back);
  EXPECT_EQ(it.left_out.came_back(), Chunks({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(it.left_out.join(it.order)[0], 0u);
}

// As the rows of an embedding are.
TEST(LeftOut, WhatIsWaitedForNowAndThenStaysOut) {
  Losing it;
  EXPECT_EQ(it.wait(5, 300, 1), Joining::none);
}

TEST(LeftOut, WhatIsTouchedAndWasThereIsNotMissed) {
  Losing it;
  for (int touch = 0; touch < 100; ++touch)
    EXPECT_EQ(it.left_out.note_touch(5, false), Joining::none);
}

TEST(LeftOut, WhatLostItsPlaceHasItAgainInAnotherOrder) {
  Losing it;
  Chunks all(chunks);
  std::iota(all.begin(), all.end(), 0u);
  it.left_out.begin(all, {}, chunks + 4);
  EXPECT_EQ(it.left_out.others(), all);
}

// Sparse chunks that passes were found to use are in no order that was told.
TEST(LeftOut, WhatWasFoundBeyondTheOrderStaysAndComesBack) {
  Losing it;
  Chunks with = it.order.first_visits();
  with.push_back(chunks);
  with.push_back(chunks + 1);
  it.order.install(with);
  it.left_out.drop(chunks + 2);
  EXPECT_EQ(it.wait(chunks + 2, 4), Joining::what_came_back);
  EXPECT_EQ(it.left_out.came_back(), Chunks{chunks + 2});
  it.order.install(it.left_out.join(it.order));
  for (ChunkId chunk = chunks; chunk < chunks + 3; ++chunk)
    EXPECT_TRUE(it.order.contains(chunk)) << chunk;
  EXPECT_EQ(it.order.size(), chunks - 8 + 3);
}

}  // namespace
}  // namespace weightpager::policy::left_out_test
