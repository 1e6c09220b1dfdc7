// Drives on paper that read one byte after the other at a set speed: with the right choice all of
// them are busy until the end, whatever their speeds are.
#include "pager/io/drive_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <queue>
#include <vector>

#include "pager/base/units.h"

namespace weightpager::io {
namespace {

constexpr uint64_t paper_read_bytes = 2 * MiB;
constexpr uint64_t paper_second_ns = 1'000'000'000;

/// Keeps so many reads in flight on drives of set speeds, as the pager does.
class PaperDrives {
 public:
  struct Drive {
    double bytes_per_ns = 1;  // GB/s
    uint64_t delay_ns = 0;    // beyond the bytes' time, for reads in parallel
    uint64_t free_ns = 0;
    uint64_t came_bytes = 0;
  };

  explicit PaperDrives(std::vector<Drive> drives) : drives(std::move(drives)) {}

  /// Returns how long it took until so many bytes had come; others are in flight then.
  uint64_t read(uint64_t bytes, size_t reads_in_flight) {
    const uint64_t began_ns = now_ns;
    for (uint64_t came_bytes = 0; came_bytes < bytes; came_bytes += paper_read_bytes) {
      while (in_flight.size() < reads_in_flight) start();
      take();
    }
    return now_ns - began_ns;
  }

  void start() {
    const DriveSet all = drive_bit(static_cast<uint32_t>(drives.size())) - 1;
    const uint32_t at = choice.choose(all, paper_read_bytes, now_ns);
    Drive& drive = drives[at];
    choice.begin(at, paper_read_bytes, now_ns);
    drive.free_ns = std::max(drive.free_ns, now_ns) +
                    static_cast<uint64_t>(paper_read_bytes / drive.bytes_per_ns);
    in_flight.push({drive.free_ns + drive.delay_ns, at, now_ns});
  }

  void take() {
    const Read read = in_flight.top();
    in_flight.pop();
    now_ns = std::max(now_ns, read.ends_ns);
    choice.end(read.drive, paper_read_bytes, read.began_ns, now_ns);
    drives[read.drive].came_bytes += paper_read_bytes;
  }

  struct Read {
    uint64_t ends_ns = 0;
    uint32_t drive = 0;
    uint64_t began_ns = 0;
    bool operator<(const Read& other) const { return ends_ns > other.ends_ns; }
  };

  std::vector<Drive> drives;
  DriveChoice choice;
  std::priority_queue<Read> in_flight;
  uint64_t now_ns = 77 * paper_second_ns;
};

/// GB/s.
double speed(uint64_t bytes, uint64_t ns) {
  return static_cast<double>(bytes) / static_cast<double>(ns);
}

TEST(DriveChoice, TwoDrivesGiveTheSumOfTheirSpeeds) {
  // With few reads in flight a drive that is far slower would be late with each of its own.
  struct {
    double first, second;
    size_t reads_in_flight;
  } constexpr cases[] = {{2, 2, 8},    {1, 3, 8},    {3, 1, 8},     {1, 3, 32},
                         {0.2, 2, 32}, {2, 0.2, 32}, {0.05, 7, 32}, {1, 1.1, 32}};
  for (const auto& [first, second, reads_in_flight] : cases) {
    PaperDrives paper({{.bytes_per_ns = first}, {.bytes_per_ns = second}});
    const double sum = speed(4 * GiB, paper.read(4 * GiB, reads_in_flight));
    EXPECT_GE(sum, 0.95 * (first + second)) << first << " + " << second << " GB/s";
  }
}

TEST(DriveChoice, FourDrivesShareByTheirSpeeds) {
  PaperDrives paper(
      {{.bytes_per_ns = 1}, {.bytes_per_ns = 2}, {.bytes_per_ns = 3}, {.bytes_per_ns = 4}});
  const uint64_t bytes = 8 * GiB;
  EXPECT_GE(speed(bytes, paper.read(bytes, 64)), 0.95 * 10);
  for (const auto& drive : paper.drives) {
    const double share = static_cast<double>(drive.came_bytes) / static_cast<double>(bytes);
    EXPECT_NEAR(share, drive.bytes_per_ns / 10, 0.02);
  }
}

TEST(DriveChoice, FollowsDrivesThatChangeTheirSpeed) {
  PaperDrives paper({{.bytes_per_ns = 3}, {.bytes_per_ns = 1}});
  paper.read(4 * GiB, 32);
  std::swap(paper.drives[0].bytes_per_ns, paper.drives[1].bytes_per_ns);
  EXPECT_GE(speed(4 * GiB, paper.read(4 * GiB, 32)), 0.95 * 4);
}

// A read that somebody waits for, while nothing else is read: the delay counts, not the rate.
TEST(DriveChoice, SingleReadsGoToTheDriveWithoutADelay) {
  PaperDrives paper({{.bytes_per_ns = 3, .delay_ns = 10'000'000}, {.bytes_per_ns = 1}});
  paper.read(64 * paper_read_bytes, 1);
  for (auto& drive : paper.drives) drive.came_bytes = 0;
  paper.read(64 * paper_read_bytes, 1);
  EXPECT_EQ(paper.drives[1].came_bytes, 64 * paper_read_bytes);
}

// A drive that could be fast again is asked again, and then used.
TEST(DriveChoice, ADriveThatWasSlowIsAskedAgain) {
  PaperDrives paper({{.bytes_per_ns = 2}, {.bytes_per_ns = 0.005}});
  paper.read(1 * GiB, 16);
  paper.drives[1].bytes_per_ns = 2;
  paper.read(32 * GiB, 16);  // 16 seconds of the other one
  paper.drives[1].came_bytes = 0;
  EXPECT_GE(speed(4 * GiB, paper.read(4 * GiB, 16)), 0.95 * 4);
}

TEST(DriveChoice, ADriveThatHangsGetsNoMoreReads) {
  DriveChoice choice;
  uint64_t now_ns = 5 * paper_second_ns;
  std::array<uint64_t, 2> reads{};
  // Both answer each read in a millisecond, then drive 1 answers no more.
  for (int i = 0; i < 100; ++i) {
    for (uint32_t drive = 0; drive < 2; ++drive) {
      choice.begin(drive, paper_read_bytes, now_ns);
      choice.end(drive, paper_read_bytes, now_ns, now_ns + 1'000'000);
    }
    now_ns += 1'000'000;
  }
  for (int i = 0; i < 3000; ++i) {
    const uint32_t drive = choice.choose(0b11, paper_read_bytes, now_ns);
    choice.begin(drive, paper_read_bytes, now_ns);
    now_ns += 1'000'000;
    if (drive == 0) choice.end(0, paper_read_bytes, now_ns - 1'000'000, now_ns);
    ++reads[drive];
  }
  EXPECT_LE(reads[1], 2u);
  EXPECT_EQ(choice.choose(0b10, paper_read_bytes, now_ns), 1u) << "where no other has the bytes";
}

TEST(DriveChoice, OfEqualDrivesTheFirstOneIsAsked) {
  DriveChoice choice;
  EXPECT_EQ(choice.choose(0b1111, paper_read_bytes, 1), 0u);
  EXPECT_EQ(choice.choose(0b1100, paper_read_bytes, 1), 2u);
  choice.begin(2, paper_read_bytes, 1);
  EXPECT_EQ(choice.choose(0b1100, paper_read_bytes, 1), 3u);
}

}  // namespace
}  // namespace weightpager::io
