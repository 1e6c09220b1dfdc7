// The disk's line through stretches, and a real file's.
#include "runtime/infer/disk_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "pager/base/units.h"
#include "tests/infer/small_network.h"

namespace weightpager::infer {
namespace {

std::vector<BusyStretch> stretches_on(double latency_ns, double ns_per_byte,
                                      const std::vector<uint64_t>& bytes) {
  std::vector<BusyStretch> stretches;
  for (const uint64_t it : bytes) {
    const double took_ns = latency_ns + ns_per_byte * static_cast<double>(it);
    stretches.push_back({{1'000, 1'000 + static_cast<uint64_t>(took_ns)}, it});
  }
  return stretches;
}

TEST(FitDisk, FindsTheLineThatStretchesLieOn) {
  const DiskLine line = fit_disk(stretches_on(100'000, 0.5, {1 << 20, 2 << 20, 40 << 20, 2 << 20}));
  EXPECT_NEAR(line.bytes_per_s, 2e9, 1e3);
  EXPECT_NEAR(line.latency_ns, 100'000, 1);
}

TEST(FitDisk, StretchesThatAreAlikeHaveNoLatency) {
  const DiskLine line = fit_disk(stretches_on(500'000, 0.5, {2'000'000, 2'000'000}));
  EXPECT_EQ(line.latency_ns, 0);
  EXPECT_DOUBLE_EQ(line.bytes_per_s, 2e6 / 1.5e6 * 1e9);
}

TEST(FitDisk, WhatCannotBeIsLeftOut) {
  // Twice the bytes in four times the time: as if the first ones took less than none.
  const BusyStretch less_than_none[] = {{{0, 1'000'000}, 2'000'000}, {{0, 4'000'000}, 4'000'000}};
  EXPECT_EQ(fit_disk(less_than_none).latency_ns, 0);
  EXPECT_DOUBLE_EQ(fit_disk(less_than_none).bytes_per_s, 1.2e9);
  const BusyStretch faster[] = {{{0, 4'000'000}, 2'000'000}, {{0, 1'000'000}, 4'000'000}};
  EXPECT_EQ(fit_disk(faster).latency_ns, 0);
  EXPECT_DOUBLE_EQ(fit_disk(faster).bytes_per_s, 1.2e9);
}

class MeasureDiskTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }

  // Pages of the packed file, in units of 1, 2, 3, … of them; every fourth unit has none.
  std::vector<pipeline::UnitBytes> units() const {
    const uint64_t file_bytes = round_down(std::filesystem::file_size(packed_path_), os_page_bytes);
    std::vector<pipeline::UnitBytes> units;
    uint64_t at_bytes = 0;
    for (uint64_t i = 1;; ++i) {
      const uint64_t length_bytes = i % 4 == 0 ? 0 : i * os_page_bytes;
      if (at_bytes + length_bytes > file_bytes) return units;
      units.push_back({at_bytes, length_bytes, length_bytes});
      at_bytes += length_bytes;
    }
  }
};

TEST_F(MeasureDiskTest, OfUnitsOfAllLengths) {
  ASSERT_GT(units().size(), 5u);
  const auto line = measure_disk(packed_path_, units());
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_GT(line->bytes_per_s, 0);
  EXPECT_GE(line->latency_ns, 0);
}

TEST_F(MeasureDiskTest, WhatCannotBeReadIsAnError) {
  const auto all = units();
  std::filesystem::resize_file(packed_path_, 8 * KiB);
  const auto line = measure_disk(packed_path_, all);
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().message.find(packed_path_ + " ends at byte 8192"), std::string::npos)
      << line.error().message;
  EXPECT_FALSE(measure_disk(packed_path_ + ".absent", all));
}

}  // namespace
}  // namespace weightpager::infer
