// Chunks that are hidden, so that their next touch is seen: every touch is in the record, and what
// the engine wrote stays.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "pager/telemetry/touch_record.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

/// Touches are recorded, so chunks are hidden all the time, and the window holds the whole file.
class HiddenTest : public PagerTest {
 protected:
  void SetUp() override {
    PagerTest::SetUp();
    if (IsSkipped()) return;
    record_ = *telemetry::TouchRecord::create_private();
    PagerOptions options;
    options.touch_record = record_.get();
    start(128 * MiB, options);
  }
  void TearDown() override { pager_.reset(); }

  /// Only where a writable region is a view can its chunks be hidden.
  static bool hides_writable() {
    if (mapper() == "module") return true;
    return mapper() == "collapse" && fault::Userfaultfd::open()->can_hold_writes();
  }

  static void store(std::byte* address, uint64_t word) {
    *reinterpret_cast<volatile uint64_t*>(address) = word;
  }

  telemetry::PrivateTouchRecord record_;
};

INSTANTIATE_TEST_SUITE_P(Mappers, HiddenTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

TEST_P(HiddenTest, EveryPassOverAWritableRegionIsSeen) {
  PatternFile file(80 * MiB);
  std::byte* region = map_writable(file);
  constexpr uint64_t passes = 3;
  for (uint64_t pass = 0; pass < passes; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += chunk_bytes() / 4) {
      ASSERT_EQ(load(region + at), word_at(at));
    }
  }
  const uint64_t chunks = file.size_bytes() / chunk_bytes();
  EXPECT_GE(record_->touches().size(), hides_writable() ? passes * chunks : chunks);
  EXPECT_EQ(telemetry_->read_bytes.load(), file.size_bytes());
  pager_->remove(region, file.size_bytes());
}

TEST_P(HiddenTest, WhatThreadsWriteMeanwhileStays) {
  PatternFile file(80 * MiB);
  std::byte* region = map_writable(file);
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      const uint64_t pages = file.size_bytes() / os_page_bytes;
      // Each thread has words of its own: this many were written, the last one is the word.
      std::vector<uint64_t> written(pages, 0);
      for (uint64_t i = 0; i < 4000; ++i) {
        const uint64_t page = random() % pages;
        const uint64_t at = page * os_page_bytes + number * 8;
        // Chunks behind the first half are written to seldom, so that they stay the file's.
        const bool is_written_to = page < pages / 2 || random() % 64 == 0;
        ASSERT_EQ(load(region + at), written[page] == 0 ? word_at(at) : written[page]) << at;
        if (!is_written_to) continue;
        written[page] = ~i;
        store(region + at, written[page]);
      }
      for (uint64_t page = 0; page < pages; ++page) {
        const uint64_t at = page * os_page_bytes + number * 8;
        ASSERT_EQ(load(region + at), written[page] == 0 ? word_at(at) : written[page]) << at;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pager_->remove(region, file.size_bytes());
}

// One thread writes to pages of two chunks that are hidden and shown all the time.
TEST_P(HiddenTest, AWriteInTheMomentOfHidingIsNotLost) {
  PatternFile file(96 * MiB);
  std::byte* region = map_writable(file);
  std::atomic<bool> is_over = false;
  std::thread reader([&] {
    for (int pass = 0; pass < 12; ++pass) {
      for (uint64_t at = 0; at < file.size_bytes(); at += chunk_bytes()) {
        EXPECT_NE(load(region + at + 8), 0u);
      }
    }
    is_over = true;
  });
  uint64_t writes = 0;
  for (uint64_t i = 1; !is_over; ++i) {
    const uint64_t page = i * 37 % 512;
    std::byte* const at = region + page * os_page_bytes + 64;
    store(at, i);
    ASSERT_EQ(load(at), i);
    ++writes;
    // A page that has not been written yet every now and then.
    std::byte* const fresh =
        region + (8 * MiB + i * 13 % (64 * MiB / os_page_bytes) * os_page_bytes) + 128;
    store(fresh, i);
    ASSERT_EQ(load(fresh), i);
  }
  reader.join();
  EXPECT_GT(writes, 100u);
  pager_->remove(region, file.size_bytes());
}

}  // namespace
}  // namespace weightpager
