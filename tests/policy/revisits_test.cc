// A visit is found where two passes come back to a chunk at the same place, and nowhere else.
#include "pager/policy/revisits.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy::revisits_test {
namespace {

using Kind = Revisits::Kind;

constexpr uint32_t chunks = 1000;
constexpr uint32_t apart = 10;

struct Noted {
  Noted() : revisits(order) {
    order.reset(chunks);
    std::vector<ChunkId> all(chunks);
    std::iota(all.begin(), all.end(), 0u);
    order.install(all);
    revisits.reset(chunks);
  }

  PassOrder order;
  Revisits revisits;
};

TEST(Revisits, OnceIsNoVisitTwiceIsOne) {
  Noted it;
  EXPECT_EQ(it.revisits.note(7, 500, apart), Kind::first);
  it.revisits.end_pass();
  EXPECT_EQ(it.revisits.note(7, 508, apart), Kind::found);
  ASSERT_EQ(it.revisits.found().size(), 1u);
  EXPECT_EQ(it.revisits.found()[0].chunk, 7u);
  EXPECT_EQ(it.revisits.found()[0].behind, 500u);  // the earlier one
  EXPECT_EQ(it.revisits.note(7, 503, apart), Kind::found);
  EXPECT_EQ(it.revisits.found().size(), 1u);
  it.revisits.forget_found();
  EXPECT_TRUE(it.revisits.found().empty());
}

TEST(Revisits, TouchesOfOnePassAreOne) {
  Noted it;
  it.revisits.note(7, 500, apart);
  EXPECT_EQ(it.revisits.note(7, 501, apart), Kind::first);
}

TEST(Revisits, AnotherPlaceIsNoVisit) {
  Noted it;
  it.revisits.note(7, 500, apart);
  it.revisits.end_pass();
  EXPECT_EQ(it.revisits.note(7, 511, apart), Kind::elsewhere);
  it.revisits.end_pass();
  EXPECT_EQ(it.revisits.note(7, 505, apart), Kind::found);
  EXPECT_EQ(it.revisits.found()[0].behind, 505u);
}

TEST(Revisits, APlaceIsKnownByItsChunkThoughTheOrderGrows) {
  Noted it;
  it.revisits.note(7, 500, apart);
  it.revisits.end_pass();
  std::vector<PassOrder::Visit> more(100, {.behind = 100, .chunk = 3});
  it.order.insert(more);
  EXPECT_EQ(it.revisits.note(7, 600, apart), Kind::found);
}

TEST(Revisits, AcrossTheEndOfThePass) {
  Noted it;
  it.revisits.note(7, 996, apart);
  it.revisits.end_pass();
  EXPECT_EQ(it.revisits.note(7, 3, apart), Kind::found);
  EXPECT_EQ(it.revisits.found()[0].behind, 996u);
}

}  // namespace
}  // namespace weightpager::policy::revisits_test
