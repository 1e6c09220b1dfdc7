// What limits leave, in made files of the kernel's, and what is said where it is too little.
#include "pager/base/memory_room.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pager/base/units.h"

namespace weightpager {
namespace {

namespace fs = std::filesystem;
using Kind = MemoryRoom::Kind;

class MemoryRooms : public ::testing::Test {
 protected:
  MemoryRooms() {
    std::string name = "/tmp/weightpager-room-XXXXXX";
    root_ = mkdtemp(name.data());
    write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapFree: 0 kB\n");
  }
  ~MemoryRooms() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // A group in another one, each with a limit of its own.
  void make_groups_v2() const {
    write("/proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "0::/outer/inner\n");
    write("/cg/outer/memory.max", "1073741824\n");
    write("/cg/outer/memory.current", "1000000000\n");
    write("/cg/outer/memory.stat", "anon 1\ninactive_file 100000000\nactive_file 200000000\n");
    write("/cg/outer/inner/memory.max", "2147483648\n");
    write("/cg/outer/inner/memory.current", "100\n");
    write("/cg/outer/inner/memory.stat", "anon 1\n");
  }
  // Of the limits that files have; those of the process that tests may come behind.
  MemoryRoom room(size_t index) const { return memory_rooms(root_).at(index); }

  std::string root_;
};

TEST_F(MemoryRooms, OfTheMachineIsWhatIsAvailable) {
  EXPECT_EQ(room(0).kind, Kind::machine);
  EXPECT_EQ(room(0).room_bytes, 4 * GiB);
  write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapFree: 1048576 kB\n");
  EXPECT_EQ(room(0).room_bytes, 5 * GiB);
}

TEST_F(MemoryRooms, OfGroupsCountTheOnesAroundThem) {
  make_groups_v2();
  EXPECT_EQ(room(1).source, "/cg/outer/inner/memory.max");
  EXPECT_EQ(room(1).room_bytes, 2147483648 - 100);
  // Page cache is taken back by itself.
  EXPECT_EQ(room(2).source, "/cg/outer/memory.max");
  EXPECT_EQ(room(2).room_bytes, 1073741824 - 700000000);
}

TEST_F(MemoryRooms, OfVersionOneHaveOneLimitForMemoryAndSwap) {
  write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapFree: 1048576 kB\n");
  write("/proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/one\n");
  write("/cg/one/memory.limit_in_bytes", "1000000\n");
  write("/cg/one/memory.usage_in_bytes", "400000\n");
  write("/cg/one/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
  EXPECT_EQ(room(1).room_bytes, 700000 + 1 * GiB);
  write("/cg/one/memory.memsw.limit_in_bytes", "1000000\n");
  write("/cg/one/memory.memsw.usage_in_bytes", "500000\n");
  EXPECT_EQ(room(1).room_bytes, 600000u);
}

TEST_F(MemoryRooms, TheNarrowestIsNamedWithTheLeastThatWorks) {
  make_groups_v2();
  const auto rooms = memory_rooms(root_);
  EXPECT_TRUE(check_room({.what = "a pass", .bytes = 373741824}, "", rooms).has_value());
  const Status tight = check_room({.what = "a pass", .bytes = 373741825}, "leave it", rooms);
  ASSERT_FALSE(tight.has_value());
  EXPECT_EQ(tight.error().message,
            "a pass takes 356.4 MiB, and there is room for 356.4 MiB: /cg/outer/memory.max is 1.0 "
            "GiB");
  EXPECT_EQ(tight.error().hint,
            "the least that works is a limit of 1.0 GiB (1074790400 bytes); or leave it");
  const Status both =
      check_room({.what = "a pass", .parts = "all of it", .bytes = 100 * GiB}, "", rooms);
  ASSERT_FALSE(both.has_value());
  EXPECT_EQ(both.error().message,
            "a pass takes 100.0 GiB (all of it), and there is room for 356.4 MiB: "
            "/cg/outer/memory.max is 1.0 GiB");
}

TEST_F(MemoryRooms, AddressSpaceIsComparedWithWhatIsMapped) {
  const std::vector<MemoryRoom> rooms = {
      {"ulimit -v", 1 * GiB, 512 * MiB, Kind::address_space},
      {"/proc/meminfo (MemTotal)", 8 * GiB, 4 * GiB, Kind::machine}};
  EXPECT_TRUE(check_room({.what = "it", .bytes = 512 * MiB}, "", rooms).has_value());
  const Status mapped =
      check_room({.what = "it", .bytes = 1, .address_bytes = 513 * MiB}, "", rooms);
  ASSERT_FALSE(mapped.has_value());
  EXPECT_EQ(mapped.error().hint, "the least that works is `ulimit -v 1049600`");
}

}  // namespace
}  // namespace weightpager
