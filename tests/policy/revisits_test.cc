// A visit is found where two passes come back to a chunk at the same place, and nowhere else.
#include "pager/policy/revisits.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy::revisits_test {
namespace {

using Kind = Revisits::Kind;

constexpr uint32_t chunks = 1000;
constexpr uint32_t unordered = 1100;  // the first of those that are not part of the order
constexpr uint32_t apart = 10;

struct Noted {
  Noted() : revisits(order, 2 * MiB) {
    order.reset(2 * chunks);
    std::vector<ChunkId> all(chunks);
    std::iota(all.begin(), all.end(), 0u);
    order.install(all);
    revisits.reset(2 * chunks);
  }

  void pass() { revisits.go_on(order.size()); }
  /// What a touch is in each of so many passes, the last one's answer.
  Kind note_in_passes(int passes, ChunkId chunk, uint32_t position) {
    Kind kind = Kind::first;
    for (int i = 0; i < passes; ++i) {
      kind = revisits.note(chunk, position, apart);
      pass();
    }
    return kind;
  }

  PassOrder order;
  Revisits revisits;
};

TEST(Revisits, OnceIsNoVisitTwiceIsOne) {
  Noted it;
  EXPECT_EQ(it.revisits.note(7, 500, apart), Kind::first);
  it.pass();
  EXPECT_EQ(it.revisits.note(7, 508, apart), Kind::found);
  EXPECT_EQ(it.revisits.note(7, 503, apart), Kind::found);
  const auto found = it.revisits.take_found();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].chunk, 7u);
  EXPECT_EQ(found[0].behind, 500u);  // the earlier one
  EXPECT_TRUE(it.revisits.take_found().empty());
}

TEST(Revisits, OnlyPassesInARowCount) {
  Noted it;
  it.revisits.note(7, 500, apart);
  EXPECT_EQ(it.revisits.note(7, 501, apart), Kind::first);
  it.pass();
  it.pass();
  EXPECT_EQ(it.revisits.note(7, 500, apart), Kind::first);
  it.pass();
  EXPECT_EQ(it.revisits.note(7, 500, apart), Kind::found);
}

TEST(Revisits, AnotherPlaceIsNoVisit) {
  Noted it;
  it.note_in_passes(1, 7, 500);
  EXPECT_EQ(it.note_in_passes(1, 7, 511), Kind::elsewhere);
  EXPECT_EQ(it.note_in_passes(1, 7, 505), Kind::found);
  EXPECT_EQ(it.revisits.take_found()[0].behind, 505u);
}

TEST(Revisits, APlaceIsKnownByItsChunkThoughTheOrderGrows) {
  Noted it;
  it.note_in_passes(1, 7, 500);
  it.order.insert(std::vector<PassOrder::Visit>(100, {.behind = 100, .chunk = 3}));
  EXPECT_EQ(it.revisits.note(7, 600, apart), Kind::found);
}

TEST(Revisits, AcrossTheEndOfThePass) {
  Noted it;
  it.note_in_passes(1, 7, 996);
  EXPECT_EQ(it.revisits.note(7, 3, apart), Kind::found);
  EXPECT_EQ(it.revisits.take_found()[0].behind, 996u);
}

// Just behind the end of the order in one pass, just before it in the next.
TEST(Revisits, APlaceAtTheEndOfThePassIsFoundInTheNextOneToo) {
  Noted it;
  EXPECT_EQ(it.revisits.note(7, 2, apart), Kind::first);
  it.revisits.go_on(chunks - 4);
  EXPECT_EQ(it.revisits.note(7, 998, apart), Kind::found);
}

TEST(Revisits, AChunkThatComesAndGoesCountsOnceAPass) {
  Noted it;
  it.revisits.note(7, 500, apart);
  it.revisits.go_on(apart);
  EXPECT_EQ(it.revisits.note(7, 510, apart), Kind::first);
  it.revisits.go_on(chunks - apart);
  EXPECT_EQ(it.revisits.note(7, 500, apart), Kind::found);
}

TEST(Revisits, WhatIsNotPartOfTheOrderHasToBeAMatrixInThreePasses) {
  Noted it;
  for (int pass = 0; pass < 3; ++pass) {
    for (ChunkId row : {0, 1, 2}) it.revisits.note(unordered + row, 500, apart);
    it.pass();
  }
  EXPECT_TRUE(it.revisits.take_found().empty());
  for (int pass = 0; pass < 3; ++pass) {
    for (ChunkId row = 10; row < 18; ++row) {
      const Kind kind = it.revisits.note(unordered + row, 500, apart);
      EXPECT_EQ(kind, pass == 2 ? Kind::found : Kind::first);
    }
    it.pass();
  }
  const auto found = it.revisits.take_found();
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found[0].chunk, unordered + 10);
  // A chunk that happened to be in memory in one of those passes.
  it.order.insert(found);
  it.note_in_passes(3, unordered + 18, 508);
  it.note_in_passes(3, unordered + 20, 508);
  const auto late = it.revisits.take_found();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].chunk, unordered + 18);
}

}  // namespace
}  // namespace weightpager::policy::revisits_test
