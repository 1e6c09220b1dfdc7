// Times between touches, with the waits taken off.
#include "pager/policy/pace_meter.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weightpager::policy::pace_meter_test {
namespace {

using Chunks = std::vector<ChunkId>;

constexpr uint32_t chunks = 64;

// An engine that computes 100 ns from each chunk of the first half, and 900 ns from others.
struct TimedEngine {
  TimedEngine() : table(chunks), meter(table, order) {
    table.add_chunks(chunks);
    for (uint32_t slot = 0; slot < chunks; ++slot) table.add_slot(slot);
    order.reset(chunks);
    Chunks all(chunks);
    std::iota(all.begin(), all.end(), 0u);
    order.install(all);
    meter.order_replaced();
  }

  /// Touches every fourth chunk, and waits `wait_ns` for each. Returns how often a pace was told.
  int pass(uint64_t wait_ns = 0) {
    int told = 0;
    for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
      meter.set_time(now_ns);
      if (chunk % 4 == 0) {
        told += meter.note_touch(chunk, wait_ns > 0 ? ChunkState::absent : ChunkState::ready);
        now_ns += wait_ns;
        meter.set_time(now_ns);
        meter.note_arrival(chunk);
      }
      now_ns += chunk < chunks / 2 ? 100 : 900;
    }
    return told;
  }

  ChunkTable table;
  PassOrder order;
  PaceMeter meter;
  uint64_t now_ns = 0;
};

TEST(PaceMeter, TellsAPaceAfterTwoPassesAndAnotherAfterFour) {
  TimedEngine it;
  std::vector<int> told;
  for (int pass = 0; pass < 8; ++pass) told.push_back(it.pass());
  EXPECT_EQ(std::accumulate(told.begin(), told.end(), 0), 2);
  EXPECT_EQ(told[0] + told[1], 0);
  EXPECT_EQ(told[2], 1);
  EXPECT_EQ(told[4], 1);
}

TEST(PaceMeter, MeasuresWithoutWaiting) {
  for (const uint64_t wait_ns : {0, 50'000}) {
    TimedEngine it;
    for (int pass = 0; pass < 3; ++pass) it.pass(wait_ns);
    const std::vector<float> pace = it.meter.pace();
    ASSERT_EQ(pace.size(), chunks);
    EXPECT_EQ(pace.front(), 100) << wait_ns;
    EXPECT_EQ(pace.back(), 900) << wait_ns;
  }
}

TEST(PaceMeter, AThreadThatIsLateSaysNothing) {
  TimedEngine it;
  it.pass();
  it.pass();
  it.meter.set_time(it.now_ns);
  it.meter.note_touch(20, ChunkState::ready);
  it.meter.set_time(it.now_ns + 5'000'000);
  it.meter.note_touch(10, ChunkState::ready);
  EXPECT_LT(it.meter.pace()[10], 200);
}

TEST(PaceMeter, BeginsWithWhatAnEarlierRunLearned) {
  TimedEngine it;
  AccessProfile access_profile;
  for (ChunkId chunk = 0; chunk < chunks; chunk += 2) {
    access_profile.order.push_back(chunk);
    access_profile.computed_ns.push_back(static_cast<float>(1000 + chunk));
  }
  const std::vector<float> pace = it.meter.begin_with(access_profile);
  EXPECT_EQ(pace[6], 1006);
  EXPECT_EQ(pace[7], 1006);  // as its neighbour
  // The first pace counts as told.
  int told = 0;
  for (int pass = 0; pass < 6; ++pass) told += it.pass();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(it.meter.pace().front(), 100);
}

TEST(PaceMeter, AnotherOrderIsMeasuredAnew) {
  TimedEngine it;
  for (int pass = 0; pass < 3; ++pass) it.pass();
  it.meter.order_edited();
  EXPECT_EQ(it.meter.pace().front(), 100);
  it.meter.order_replaced();
  EXPECT_EQ(it.meter.pace().front(), 0);
}

}  // namespace
}  // namespace weightpager::policy::pace_meter_test
