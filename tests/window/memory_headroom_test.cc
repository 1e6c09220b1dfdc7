// What is left below a limit is read as the kernel says it, and the window follows it and settles.
#include "pager/window/memory_headroom.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "pager/base/units.h"

// What this thread allocated so far, counted by operators that the whole test program uses.
static thread_local uint64_t allocations = 0;

void* operator new(size_t length_bytes) {
  ++allocations;
  void* const got = std::malloc(length_bytes);
  if (got == nullptr) throw std::bad_alloc();
  return got;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace weightpager::window {
namespace {

namespace fs = std::filesystem;

class MemoryHeadroomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "headroom_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = fs::absolute(name).string();
    write("/proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(MemoryHeadroomTest, IsWhatTheMachineHasWithoutACgroup) {
  EXPECT_EQ(MemoryHeadroom(root_).bytes(), int64_t{4} * GiB);
}

TEST_F(MemoryHeadroomTest, LeavesThePageCacheOutInVersion2) {
  write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/job/memory.current", "805306368\n");
  write("/sys/fs/cgroup/job/memory.stat",
        "anon 500\nfile 268435456\ninactive_file 134217728\nactive_file 67108864\n");
  EXPECT_EQ(MemoryHeadroom(root_).bytes(), static_cast<int64_t>(448 * MiB));
}

TEST_F(MemoryHeadroomTest, CountsTheGroupsBelowInVersion1) {
  write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/job\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824\n");
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  EXPECT_EQ(MemoryHeadroom(root_).bytes(), static_cast<int64_t>(2 * MiB));
}

TEST_F(MemoryHeadroomTest, SeesWhatChangedSinceItWasOpened) {
  const MemoryHeadroom headroom(root_);
  write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:     2048 kB\n");
  EXPECT_EQ(headroom.bytes(), int64_t{2} * MiB);
  write("/proc/meminfo", "MemTotal: 8388608 kB\n");
  EXPECT_EQ(headroom.bytes(), std::nullopt);
}

TEST_F(MemoryHeadroomTest, IsUnknownWithoutTheGroupsUsage) {
  write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  EXPECT_EQ(MemoryHeadroom(root_).bytes(), std::nullopt);
}

TEST_F(MemoryHeadroomTest, CountsNoLineThatItCannotReadToItsEnd) {
  write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/job/memory.current", "1073741824\n");
  // What is read at once, 8 KiB, ends inside of the last number.
  const std::string head = "active_file 1048576\n";
  const std::string tail = "inactive_file 104857600\n";
  std::string filler(8192 - head.size() - tail.size() + 4, ' ');
  filler.back() = '\n';
  write("/sys/fs/cgroup/job/memory.stat", head + filler + tail);
  EXPECT_EQ(MemoryHeadroom(root_).bytes(), static_cast<int64_t>(MiB));
}

// pager.h promises that the pager's thread allocates nothing while it serves.
TEST_F(MemoryHeadroomTest, AllocatesNothingWhenItLooks) {
  const MemoryHeadroom of_root(root_);
  const MemoryHeadroom of_this_machine;
  EXPECT_TRUE(of_this_machine.bytes().has_value());
  const uint64_t before = allocations;
  ASSERT_GT(before, 0u);
  for (int i = 0; i < 100; ++i) {
    (void)of_root.bytes();
    (void)of_this_machine.bytes();
  }
  EXPECT_EQ(allocations, before);
}

TEST(WindowThatFits, ShrinksBeforeTheLimitAndNotBelowTheLeastWindow) {
  EXPECT_EQ(window_chunks_that_fit(512, 512, int64_t{60} * MiB, 2 * MiB), 512u);
  EXPECT_EQ(window_chunks_that_fit(512, 512, int64_t{20} * MiB, 2 * MiB), 512u - 14u);
  EXPECT_EQ(window_chunks_that_fit(512, 512, -int64_t{4} * GiB, 2 * MiB), 16u);
  EXPECT_EQ(window_chunks_that_fit(8, 512, 0, 2 * MiB), 8u);
}

TEST(WindowThatFits, IsTheSameInSmallerChunks) {
  EXPECT_EQ(window_chunks_that_fit(8192, 8192, int64_t{60} * MiB, 128 * KiB), 8192u);
  EXPECT_EQ(window_chunks_that_fit(8192, 8192, int64_t{20} * MiB, 128 * KiB), 8192u - 28 * 8u);
  EXPECT_EQ(window_chunks_that_fit(8192, 8192, -int64_t{4} * GiB, 128 * KiB), 256u);
}

TEST(WindowThatFits, GrowsBackToWhatWasAskedForAndSettles) {
  EXPECT_EQ(window_chunks_that_fit(100, 512, int64_t{10} * GiB, 2 * MiB), 512u);
  EXPECT_EQ(window_chunks_that_fit(100, 512, int64_t{96} * MiB, 2 * MiB), 100u);
  // A window that takes what it is given reaches a size at which it stays.
  uint32_t chunks = 16;
  const int64_t limit_bytes = int64_t{1} * GiB;
  for (int i = 0; i < 50; ++i) {
    chunks = window_chunks_that_fit(chunks, 4096,
                                    limit_bytes - static_cast<int64_t>(chunks * 2 * MiB), 2 * MiB);
  }
  const uint32_t settled = chunks;
  EXPECT_GT(settled, 450u);
  for (int i = 0; i < 50; ++i) {
    chunks = window_chunks_that_fit(chunks, 4096,
                                    limit_bytes - static_cast<int64_t>(chunks * 2 * MiB), 2 * MiB);
    EXPECT_EQ(chunks, settled);
  }
}

}  // namespace
}  // namespace weightpager::window
