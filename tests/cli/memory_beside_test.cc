// What a process has beside what was promised, told from a text like /proc/self/smaps.
#include "tools/probes/memory_beside.h"

#include <gtest/gtest.h>

#include <string>

#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

// A ring of 64 KiB whose second mapping has 8 KiB, a stack behind its guard, and so on.
const std::string smaps =
    "1000-9000 r-xp 00000000 08:01 17      /usr/bin/weightpager\n"
    "Size:                 32 kB\n"
    "Rss:                  28 kB\n"
    "VmFlags: rd ex mr mw me\n"
    "9000-a000 rw-p 00008000 08:01 17      /usr/bin/weightpager\n"
    "Rss:                   4 kB\n"
    "10000-50000 rwxp 00000000 00:00 0\n"
    "Rss:                  12 kB\n"
    "100000-101000 ---p 00000000 00:00 0 \n"
    "Rss:                   0 kB\n"
    "101000-901000 rw-p 00000000 00:00 0 \n"
    "Rss:                  16 kB\n"
    "a00000-a10000 rw-s 00000000 00:01 99   /memfd:weightpager ring (deleted)\n"
    "Rss:                  64 kB\n"
    "a10000-a20000 rw-s 00000000 00:01 99   /memfd:weightpager ring (deleted)\n"
    "Rss:                   8 kB\n"
    "b00000-c00000 rw-p 00000000 00:00 0 \n"
    "Rss:                1024 kB\n"
    "d00000-d02000 rw-s 00000000 00:0f 3    anon_inode:[io_uring]\n"
    "Rss:                   8 kB\n"
    "7ff000000000-7ff000010000 rw-p 00000000 00:00 0 [stack]\n"
    "Rss:                  20 kB\n";

TEST(MemoryBeside, EveryPageIsOfOneKind) {
  // The ring, and of the megabyte 1,000 KiB of activations.
  const uint64_t known_bytes = (64 + 1000) * KiB;
  const MemoryBeside beside = memory_beside(smaps, known_bytes, (1184 + 100) * KiB);
  EXPECT_EQ(beside.program_bytes, 32 * KiB);
  EXPECT_EQ(beside.kernels_bytes, 12 * KiB);
  EXPECT_EQ(beside.stacks_bytes, 36 * KiB);
  EXPECT_EQ(beside.reader_bytes, 8 * KiB);
  EXPECT_EQ(beside.counted_twice_bytes, 8 * KiB);
  EXPECT_EQ(beside.heap_bytes, 24 * KiB);
  EXPECT_EQ(beside.passing_bytes, 100 * KiB);
  EXPECT_EQ(known_bytes + beside.all_bytes(), (1184 + 100) * KiB);
}

TEST(MemoryBeside, MoreThatIsKnownThanThereIsLeavesNothing) {
  const MemoryBeside beside = memory_beside(smaps, 100 * MiB, 0);
  EXPECT_EQ(beside.heap_bytes, 0u);
  EXPECT_EQ(beside.passing_bytes, 0u);
}

TEST(MemoryBeside, NothingIsToldWithoutProc) { EXPECT_EQ(memory_beside("", 0, 0).all_bytes(), 0u); }

TEST(MemoryBeside, ThisProcessHasAProgramAndAHeap) {
  const MemoryBeside beside = memory_beside(0);
  EXPECT_GT(beside.program_bytes, 0u);
  EXPECT_GT(beside.heap_bytes, 0u);
  EXPECT_GT(beside.stacks_bytes, 0u);
}

}  // namespace
}  // namespace weightpager::tools
