// Slots get memory in order, as far as asked, and the pool's threads can be stopped at any time.
#include "pager/window/slot_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace weightpager::window {
namespace {

void count_up(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

class SlotPoolTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(ChunkBytes, SlotPoolTest, ::testing::Values(64 * KiB, 2 * MiB));

TEST_P(SlotPoolTest, PopulatesAsFarAsAskedAndSaysSo) {
  const uint64_t chunk_bytes = GetParam();
  auto pool = SlotPool::create(40, chunk_bytes);
  ASSERT_TRUE(pool);
  std::atomic<int> announcements{0};
  EXPECT_EQ((*pool)->populated(), 0u);
  (*pool)->want(10, count_up, &announcements);
  while ((*pool)->populated() < 10) std::this_thread::yield();
  (*pool)->want(1000, count_up, &announcements);
  while ((*pool)->populated() < 40) std::this_thread::yield();
  EXPECT_EQ((*pool)->populated(), 40u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*pool)->address(39)) % chunk_bytes, 0u);
  std::memset((*pool)->address(0), 1, 40 * chunk_bytes);
}

TEST_P(SlotPoolTest, StopsWhileItsThreadsWaitOrWork) {
  for (int round = 0; round < 20; ++round) {
    auto pool = SlotPool::create(100, GetParam());
    ASSERT_TRUE(pool);
    std::atomic<int> announcements{0};
    (*pool)->want(4 + round, count_up, &announcements);
  }
}

}  // namespace
}  // namespace weightpager::window
