// Slots get memory in order, as far as asked, and the pool's threads can be stopped at any time.
#include "pager/window/slot_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "pager/fault/userfaultfd.h"
#include "tests/pager/lacks.h"

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

// A read into one slot holds its pages. The kernel moves no part of a huge page then, so slots that
// are less than one must not share one.
TEST(SlotPool, ASmallSlotCanMoveWhileAnotherOfItsBatchIsHeld) {
  WP_SKIP_FOR(lack_for_mapper("move"));
  auto uffd = fault::Userfaultfd::open();
  ASSERT_TRUE(uffd) << uffd.error().message;
  constexpr uint64_t chunk_bytes = 64 * KiB;
  auto region = SlotPool::create(1, chunk_bytes);
  auto pool = SlotPool::create(32, chunk_bytes);
  ASSERT_TRUE(region && pool);
  std::atomic<int> announcements{0};
  (*pool)->want(32, count_up, &announcements);
  while ((*pool)->populated() < 32) std::this_thread::yield();
  ASSERT_TRUE(uffd->register_range((*pool)->address(0), 32 * chunk_bytes));
  ASSERT_TRUE(uffd->register_range((*region)->address(0), chunk_bytes));

  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  iovec held{(*pool)->address(0), os_page_bytes};
  ASSERT_EQ(vmsplice(pipes[1], &held, 1, 0), static_cast<ssize_t>(os_page_bytes));
  std::memset((*pool)->address(1), 7, chunk_bytes);
  EXPECT_EQ(uffd->move((*region)->address(0), (*pool)->address(1), chunk_bytes),
            fault::Outcome::done);
  EXPECT_EQ((*region)->address(0)[chunk_bytes - 1], std::byte{7});
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace weightpager::window
