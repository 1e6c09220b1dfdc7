// The simulator's clock, against times that can be worked out by hand.
#include "pager/simulate/simulator.h"

#include <gtest/gtest.h>

#include "tests/simulate/random_trace.h"

namespace weightpager::simulate {
namespace {

constexpr uint64_t read_ns = 1'000'000;  // of a chunk, on the bus
constexpr uint64_t latency_ns = 50'000;

DiskModel disk() {
  return {"test", static_cast<double>(chunk_bytes_max) * 1e9 / read_ns, latency_ns, 4, 0};
}

SimulatorOptions options(const std::string& policy, uint32_t window_chunks) {
  SimulatorOptions it;
  it.policy = policy;
  it.window_chunks = window_chunks;
  it.disk = disk();
  it.handling = no_handling;
  it.handling.fault_ns = 10'000;
  return it;
}

Trace computing(Trace trace, uint64_t compute_ns) {
  for (Touch& touch : trace.touches) touch.compute_ns = compute_ns;
  return trace;
}

TEST(SimulatedDisk, OneReadTakesLatencyAndTransfer) {
  SimulatedDisk it(disk(), 1);
  it.start(7, chunk_bytes_max, 100);
  const auto finished = it.take_finished();
  EXPECT_EQ(finished.tag, 7u);
  EXPECT_EQ(finished.finished_ns, 100 + latency_ns + read_ns);
  EXPECT_TRUE(it.is_idle());
}

TEST(SimulatedDisk, ManyReadsHideTheLatency) {
  SimulatedDisk it(disk(), 1);
  for (uint64_t tag = 0; tag < 8; ++tag) it.start(tag, chunk_bytes_max, 0);
  for (uint64_t tag = 0; tag < 8; ++tag) {
    EXPECT_EQ(it.take_finished().finished_ns, latency_ns + (tag + 1) * read_ns);
  }
}

TEST(SimulatedDisk, GoesOnWhileNobodyLooks) {
  SimulatedDisk it(disk(), 1);
  for (uint64_t tag = 0; tag < 8; ++tag) it.start(tag, chunk_bytes_max, 0);
  // Six have ended by then, and their places at the device were given to the others.
  it.start(100, chunk_bytes_max, latency_ns + 6 * read_ns);
  EXPECT_EQ(it.reads_in_flight(), 9u);
  for (uint64_t tag = 0; tag < 8; ++tag) {
    const auto finished = it.take_finished();
    EXPECT_EQ(finished.tag, tag);
    EXPECT_EQ(finished.finished_ns, latency_ns + (tag + 1) * read_ns);
  }
  EXPECT_EQ(it.take_finished().finished_ns, latency_ns + 9 * read_ns);
  EXPECT_TRUE(it.is_idle());
}

TEST(SimulatedDisk, MaySayNothingUntilItHasNothingMoreToDo) {
  DiskModel model = disk();
  model.answers_together = true;
  SimulatedDisk it(model, 1);
  for (uint64_t tag = 0; tag < 8; ++tag) it.start(tag, chunk_bytes_max, 0);
  EXPECT_EQ(it.next_finish_ns(), latency_ns + 8 * read_ns);
  it.start(8, chunk_bytes_max, latency_ns + 7 * read_ns);
  for (uint64_t tag = 0; tag < 9; ++tag) {
    const auto finished = it.take_finished();
    EXPECT_EQ(finished.tag, tag);
    EXPECT_EQ(finished.finished_ns, latency_ns + 9 * read_ns);
  }
  EXPECT_TRUE(it.is_idle());
}

TEST(SimulatedDisk, JitterIsTheSeedsAndMakesLonger) {
  DiskModel model = disk();
  model.jitter = 2;
  const auto times = [&](uint64_t seed) {
    SimulatedDisk it(model, seed);
    std::vector<uint64_t> finished_ns;
    for (int i = 0; i < 100; ++i) {
      it.start(0, chunk_bytes_max, 0);
      finished_ns.push_back(it.take_finished().finished_ns);
    }
    return finished_ns;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
  EXPECT_GT(times(1).back(), 100 * read_ns);
}

TEST(DiskByName, PresetsSpeedsAndNothingElse) {
  EXPECT_EQ(disk_by_name("sata")->bytes_per_s, 0.55e9);
  EXPECT_EQ(disk_by_name("28GB/s")->bytes_per_s, 28e9);
  EXPECT_EQ(disk_by_name("0.5GB/s")->bytes_per_s, 0.5e9);
  for (const char* wrong :
       {"", "floppy", "GB/s", "-3GB/s", "0GB/s", "3GiB/s", "nanGB/s", "3 GB/s"}) {
    const auto disk = disk_by_name(wrong);
    ASSERT_FALSE(disk.has_value()) << wrong;
    EXPECT_NE(disk.error().hint.find("nvme-gen4"), std::string::npos);
  }
}

// lru reads when touched: each touch waits for one read, and for the fault.
TEST(Simulator, DemandReadsCostTheirTime) {
  const Trace trace = computing(dense(4, 10, 3), 500'000);
  const auto run = simulate(trace, options("lru", 20));
  ASSERT_TRUE(run.has_value());
  for (const PassCounts& pass : run->passes) {
    EXPECT_EQ(pass.reads, 40u);
    EXPECT_EQ(pass.demand_reads, 40u);
    EXPECT_EQ(pass.compute_ns, 40 * 500'000u);
    EXPECT_EQ(pass.stall_ns, 40 * (latency_ns + read_ns + 10'000));
    EXPECT_EQ(pass.time_ns, pass.compute_ns + pass.stall_ns);
  }
}

// Window full, each touch of lru: the pager wakes; evicts a chunk that is hidden already (which
// costs nothing), starts a read, hides one more chunk, hands the read over; shows what came.
TEST(Simulator, ThePagerDoesOneThingAfterTheOther) {
  const Trace trace = computing(dense(4, 10, 3), 500'000);
  SimulatorOptions it = options("lru", 20);
  it.handling.request_ns = 7'000;
  it.handling.show_huge_ns = 300'000;
  it.handling.take_out_huge_ns = 90'000;
  const auto run = simulate(trace, it);
  const uint64_t touch_ns = 5'000 + 90'000 + 7'000 + latency_ns + read_ns + 300'000 + 5'000;
  EXPECT_EQ(run->passes.back().stall_ns, 40 * touch_ns);
}

// By the time that a read is done the pager sleeps again: it has to wake once more for each. What
// is only shown takes no such turn.
TEST(Simulator, ATurnForWhatWasReadIsPaidFor) {
  const Trace trace = computing(dense(4, 10, 3), 500'000);
  SimulatorOptions it = options("lru", 20);
  it.handling.turn_ns = 30'000;
  const auto run = simulate(trace, it);
  EXPECT_EQ(run->passes.back().stall_ns, 40 * (5'000 + latency_ns + read_ns + 30'000 + 5'000));

  it.window_chunks = 40;
  const auto hidden = simulate(trace, it);
  ASSERT_EQ(hidden->passes.back().tripwires, 40u);
  EXPECT_EQ(hidden->passes.back().stall_ns, 40 * 10'000u);
}

// The pager is still at work when the next touch comes: hiding takes longer than computing.
TEST(Simulator, ATouchWaitsUntilThePagerHasTime) {
  const Trace trace = computing(dense(4, 10, 3), 500'000);
  SimulatorOptions it = options("lru", 100);
  it.handling.take_out_huge_ns = 800'000;
  const auto run = simulate(trace, it);
  const PassCounts& pass = run->passes.back();
  ASSERT_EQ(pass.reads, 0u);
  EXPECT_EQ(pass.time_ns, 40 * 500'000u);  // 100 chunks: none has to be hidden

  it.window_chunks = 40;  // all are there, but the older half is hidden
  const auto hidden = simulate(trace, it);
  ASSERT_EQ(hidden->passes.back().tripwires, 40u);
  // The pager takes 800 us for each; the next touch has come by then, 505 us after it served the
  // last.
  EXPECT_EQ(hidden->passes.back().time_ns, 40 * 800'000u);
}

// As before, but the engine goes on only when the pager has hidden a chunk.
TEST(Simulator, OnOneProcessorTheEngineGoesOnWhenThePagerSleeps) {
  const Trace trace = computing(dense(4, 10, 3), 500'000);
  SimulatorOptions it = options("lru", 40);
  it.handling.take_out_huge_ns = 800'000;
  it.handling.shares_processor = true;
  const auto run = simulate(trace, it);
  ASSERT_EQ(run->passes.back().tripwires, 40u);
  EXPECT_EQ(run->passes.back().stall_ns, 40 * (5'000u + 800'000 + 5'000));
  EXPECT_EQ(run->passes.back().time_ns, 40 * (810'000u + 500'000));
}

// Chunks of 128 KiB, all of which are read ahead at once: four by each request.
TEST(Simulator, NeighboursAreReadTogether) {
  Trace trace = dense(4, 25, 1);
  trace.chunk_bytes = 128 * KiB;
  SimulatorOptions it = options("ring", 400);
  it.handling.fault_ns = 0;
  it.timeline_pass = 0;
  const auto run = simulate(trace, it);
  ASSERT_EQ(run->passes[0].reads, 100u);
  std::vector<uint64_t> ends_ns;
  for (const TimelineSpan& span : run->timeline) {
    const bool is_read =
        span.kind == TimelineSpan::Kind::read || span.kind == TimelineSpan::Kind::demand_read;
    if (is_read) ends_ns.push_back(span.end_ns);
  }
  ASSERT_EQ(ends_ns.size(), 25u);
  // A chunk of 2 MiB takes 1 ms on the bus.
  for (size_t i = 0; i < 25; ++i) EXPECT_EQ(ends_ns[i], latency_ns + (i + 1) * read_ns / 4);
}

// What is read ahead in a pause need not be waited for: here the window less 2 chunks at most.
TEST(Simulator, APauseIsForReadingAhead) {
  const Trace trace = computing(dense(4, 25, 6), 0);
  SimulatorOptions it = options("pin-stream", 40);
  const auto without = simulate(trace, it);
  it.pauses_before = [](size_t) { return true; };
  const auto with = simulate(trace, it);
  EXPECT_LT(with->passes.back().time_ns, without->passes.back().time_ns);
  EXPECT_GT(with->passes.back().time_ns, 60 * read_ns);  // 100 chunks, of which 40 fit
}

// Computing takes twice as long as reading: whoever streams is hardly ever waiting.
TEST(Simulator, StreamedReadsHideUnderComputing) {
  const Trace trace = computing(dense(4, 25, 6), 2 * read_ns);
  const auto run = simulate(trace, options("pin-stream", 40));
  const PassCounts& pass = run->passes.back();
  EXPECT_EQ(pass.demand_reads, 0u);
  EXPECT_LT(pass.stall_ns, pass.compute_ns / 50);
}

// Reading takes twice as long: a pass takes the time of its reads.
TEST(Simulator, TheDiskIsTheBoundWhereItIs) {
  const Trace trace = computing(dense(4, 25, 6), read_ns / 4);
  const auto run = simulate(trace, options("pin-stream", 40));
  const PassCounts& pass = run->passes.back();
  EXPECT_NEAR(static_cast<double>(pass.time_ns), static_cast<double>(pass.reads * read_ns),
              0.05 * static_cast<double>(pass.time_ns));
}

TEST(Simulator, SaysTheSameTwice) {
  const Trace trace = mixture(1.0, 5, 3);
  SimulatorOptions it = options("expert", 40);
  it.disk.jitter = 1;
  const auto one = simulate(trace, it);
  const auto other = simulate(trace, it);
  it.seed = 2;
  const auto another_seed = simulate(trace, it);
  EXPECT_EQ(one->passes.back().time_ns, other->passes.back().time_ns);
  EXPECT_NE(one->passes.back().time_ns, another_seed->passes.back().time_ns);
}

TEST(Simulator, TheTimelineAddsUp) {
  const Trace trace = computing(dense(4, 25, 6), read_ns / 4);
  SimulatorOptions it = options("pin-stream", 40);
  it.timeline_pass = 4;
  const auto run = simulate(trace, it);
  uint64_t stall_ns = 0;
  uint64_t compute_ns = 0;
  for (const TimelineSpan& span : run->timeline) {
    EXPECT_LT(span.begin_ns, span.end_ns);
    if (span.kind == TimelineSpan::Kind::stall) stall_ns += span.end_ns - span.begin_ns;
    if (span.kind == TimelineSpan::Kind::compute) compute_ns += span.end_ns - span.begin_ns;
  }
  EXPECT_EQ(stall_ns, run->passes[4].stall_ns);
  EXPECT_EQ(compute_ns, run->passes[4].compute_ns);
}

TEST(Simulator, RefusesWhatItCannotDo) {
  const Trace trace = dense(4, 25, 2);
  const auto unknown = simulate(trace, options("clairvoyant", 40));
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().hint.find("pin-stream, expert, learned, belady"), std::string::npos)
      << unknown.error().hint;
  const auto small = simulate(trace, options("lru", 15));
  ASSERT_FALSE(small.has_value());
  EXPECT_NE(small.error().message.find("30.0 MiB"), std::string::npos) << small.error().message;
}

TEST(LivePolicy, CannotKnowTheFuture) {
  EXPECT_TRUE(policy::check_policy("expert", true).has_value());
  const auto belady = policy::check_policy("belady", true);
  ASSERT_FALSE(belady.has_value());
  EXPECT_EQ(belady.error().hint.find("belady"), std::string::npos) << belady.error().hint;
}

}  // namespace
}  // namespace weightpager::simulate
