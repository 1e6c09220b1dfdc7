// Threads of a simulated engine, against times that can be worked out by hand.
#include "pager/simulate/engine_threads.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "pager/simulate/divide_matrix.h"
#include "pager/simulate/simulator.h"
#include "pager/simulate/trace_format.h"
#include "tests/simulate/random_trace.h"

namespace weightpager::simulate::threads_test {
namespace {

constexpr uint64_t read_ns = 1'000'000;  // of a chunk, on the bus
constexpr uint64_t latency_ns = 50'000;

SimulatorOptions quiet(const std::string& policy, uint32_t window_chunks) {
  SimulatorOptions it;
  it.policy = policy;
  it.window_chunks = window_chunks;
  it.disk = {"test", static_cast<double>(chunk_bytes_max) * 1e9 / read_ns, latency_ns, 16, 0};
  it.handling = no_handling;
  it.handling.fault_ns = 10'000;
  return it;
}

/// One pass over chunks 0, 1, …, one touch each.
Trace pass_of(const std::vector<uint64_t>& compute_ns, uint32_t threads,
              std::vector<ThreadPart> parts) {
  Trace trace;
  trace.chunks = static_cast<uint32_t>(compute_ns.size());
  for (ChunkId chunk = 0; chunk < trace.chunks; ++chunk) {
    trace.touches.push_back({chunk, 0, compute_ns[chunk]});
  }
  trace.pass_begins = {0};
  trace.threads = threads;
  trace.parts = std::move(parts);
  EXPECT_TRUE(check(trace, "test").has_value()) << check(trace, "test").error().message;
  return trace;
}

Trace model_of_threads(uint32_t threads, uint32_t passes, Division division = Division::strips) {
  Workload work = workload(passes);
  work.threads = threads;
  work.division = division;
  return make_trace(model_of({.layers = 6, .dense_bytes = 21 * MiB}), work, "threads");
}

TEST(EngineThreads, MeetWhereAMatrixEnds) {
  // The first matrix takes the longer of 30 and 50, the second one of 20 and 10.
  const Trace trace =
      pass_of({30, 50, 20, 10}, 2, {{0, 0, true}, {1, 1, false}, {2, 0, true}, {3, 1, false}});
  EXPECT_EQ(undisturbed_passes_ns(trace), (std::vector<uint64_t>{70}));
}

TEST(EngineThreads, TakeThePartsThatAreForAll) {
  // Thread 0 computes for 100; meanwhile thread 1 takes 40, 30 and 30.
  const Trace trace = pass_of({100, 40, 30, 30}, 2,
                              {{0, any_thread, true},
                               {1, any_thread, false},
                               {2, any_thread, false},
                               {3, any_thread, false}});
  EXPECT_EQ(undisturbed_passes_ns(trace), (std::vector<uint64_t>{100}));
}

TEST(EngineThreads, AThreadWithoutAPartWaitsForTheOthers) {
  const Trace trace = pass_of({30, 50, 5}, 3, {{0, 2, true}, {2, 1, true}});
  EXPECT_EQ(undisturbed_passes_ns(trace), (std::vector<uint64_t>{85}));
}

TEST(EngineThreads, ShareProcessors) {
  const Trace trace = pass_of({40, 40, 40}, 3, {{0, 0, true}, {1, 1, false}, {2, 2, false}});
  SimulatorOptions options = quiet("demand", 16);
  options.handling.fault_ns = 0;
  options.disk.latency_ns = 0;
  options.disk.bytes_per_s = 1e18;  // at once
  for (const auto& [processors, time_ns] : {std::pair{1u, 120u}, {2u, 80u}, {3u, 40u}}) {
    options.processors = processors;
    EXPECT_EQ(simulate(trace, options)->passes[0].time_ns, time_ns) << processors;
  }
}

// All threads fault at once. The pager takes all faults in one turn, so the disk has all reads at
// once, and hides the latency of all but the first.
TEST(EngineThreads, WaitForSeveralChunksAtOnce) {
  const Trace trace =
      pass_of({0, 0, 0, 0}, 4, {{0, 0, true}, {1, 1, false}, {2, 2, false}, {3, 3, false}});
  const auto run = simulate(trace, quiet("demand", 16));
  const PassCounts& pass = run->passes[0];
  EXPECT_EQ(pass.demand_reads, 4u);
  EXPECT_EQ(pass.time_ns, 5'000 + latency_ns + 4 * read_ns + 5'000);
  // The first waits for one read, the second for two, …
  EXPECT_EQ(pass.stall_ns, 4 * (5'000 + latency_ns + 5'000) + (1 + 2 + 3 + 4) * read_ns);
}

// The border of two strips: the policy hears of one touch, one read serves both.
TEST(EngineThreads, WaitTogetherForOneChunk) {
  Trace trace = pass_of({100, 100}, 2, {{0, 0, true}, {1, 1, false}});
  trace.touches[1].chunk = 0;
  const auto run = simulate(trace, quiet("demand", 16));
  EXPECT_EQ(run->passes[0].reads, 1u);
  EXPECT_EQ(run->passes[0].demand_reads, 1u);
  EXPECT_EQ(run->passes[0].stall_ns, 2 * (latency_ns + read_ns + 10'000));
  EXPECT_EQ(run->passes[0].time_ns, latency_ns + read_ns + 10'000 + 100);
}

TEST(DivideMatrix, StripsAndPiecesCoverAllOnce) {
  for (const Division division : {Division::strips, Division::pieces}) {
    for (const uint64_t size : {uint64_t{1}, 100 * KiB, 9 * MiB + 1, 144 * MiB}) {
      for (const uint32_t threads : {2u, 3u, 16u, 64u}) {
        uint64_t end = 0;
        for (const MatrixShare& share : divide_matrix(size, threads, division)) {
          EXPECT_EQ(share.begin_bytes, end);
          EXPECT_LT(share.begin_bytes, share.end_bytes);
          EXPECT_TRUE(share.thread < threads || share.thread == any_thread);
          end = share.end_bytes;
        }
        EXPECT_EQ(end, size);
      }
    }
  }
}

TEST(DivideMatrix, DealsStripsOutAndLetsPiecesBeTaken) {
  EXPECT_EQ(divide_matrix(16 * MiB, 4, Division::strips).size(), 4u);
  const auto pieces = divide_matrix(16 * MiB, 4, Division::pieces);
  EXPECT_EQ(pieces.size(), 32u);
  EXPECT_EQ(pieces.back().thread, any_thread);
  // Too few for 16 threads.
  EXPECT_EQ(divide_matrix(16 * MiB, 16, Division::pieces).size(), 16u);
  EXPECT_EQ(divide_matrix(16 * MiB, 16, Division::pieces).back().thread, 15u);
}

TEST(MakeTrace, StripsBeginAnywhereAndShareChunks) {
  // 21 MiB from 21 MiB on, four strips of 5.25 MiB: chunks 10 to 13, 13 to 15, 15 to 18, 18 to 20.
  const Trace trace = model_of_threads(4, 1);
  ASSERT_EQ(trace.parts.size(), 6u * 4);
  std::vector<std::pair<ChunkId, ChunkId>> ends;
  for (size_t part = 4; part < 8; ++part) {
    EXPECT_EQ(trace.parts[part].thread, part - 4);
    EXPECT_EQ(trace.parts[part].is_met, part == 4);
    ends.emplace_back(trace.touches[trace.parts[part].begin].chunk,
                      trace.touches[trace.parts[part + 1].begin - 1].chunk);
  }
  EXPECT_EQ(ends,
            (std::vector<std::pair<ChunkId, ChunkId>>{{10, 13}, {13, 15}, {15, 18}, {18, 20}}));
}

TEST(MakeTrace, ThreadsTogetherAreAsFastAsOne) {
  const auto one = undisturbed_passes_ns(model_of_threads(1, 1));
  for (const uint32_t threads : {2u, 7u, 64u}) {
    const auto many = undisturbed_passes_ns(model_of_threads(threads, 1));
    EXPECT_NEAR(static_cast<double>(many[0]), static_cast<double>(one[0]),
                0.001 * static_cast<double>(one[0]))
        << threads;
  }
}

TEST(TraceFormat, OneThreadIsWrittenAsBefore) {
  EXPECT_EQ(static_cast<int>(encode(dense(2, 3, 2))[8]), 2);
  EXPECT_EQ(static_cast<int>(encode(model_of_threads(2, 2))[8]), 3);
}

RC_GTEST_PROP(TraceFormat, ThreadsComeBackAsTheyWere, ()) {
  const auto division = *rc::gen::element(Division::strips, Division::pieces);
  const Trace trace = model_of_threads(*rc::gen::inRange(2u, 20u), 2, division);
  const auto bytes = encode(trace);
  const auto read = decode(bytes, "test");
  RC_ASSERT(read.has_value());
  RC_ASSERT(encode(*read) == bytes);
  RC_ASSERT(read->threads == trace.threads);
  RC_ASSERT(undisturbed_passes_ns(*read) == undisturbed_passes_ns(trace));
}

TEST(TraceFormat, PartsThatContradictAreRefused) {
  const auto refused = [](Trace trace, const std::string& why) {
    const auto read = decode(encode(trace), "bad.trace");
    ASSERT_FALSE(read.has_value()) << why;
    EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message;
  };
  const Trace sound = model_of_threads(3, 2);
  Trace trace = sound;
  trace.parts[4].thread = 3;
  refused(trace, "a part is of thread 3, of 3");
  trace = sound;
  trace.parts[4].begin = trace.parts[3].begin;
  refused(trace, "parts begin in no order");
  trace = sound;
  trace.parts.front().begin = 1;
  refused(trace, "parts begin in no order");
  trace = sound;
  trace.parts.back().begin = trace.touches.size();
  refused(trace, "outside of the touches");
  trace = sound;
  trace.parts.front().is_met = false;
  refused(trace, "threads do not meet where a pass begins");
  trace = sound;
  trace.pass_begins[1] += 1;
  refused(trace, "a pass begins within a part");
  trace = sound;
  trace.parts.clear();
  refused(trace, "0 parts of 3 threads");
}

TEST(Simulator, BeladyCannotKnowWhatThreadsWillDo) {
  const auto run = simulate(model_of_threads(2, 2), quiet("belady", 20));
  ASSERT_FALSE(run.has_value());
  EXPECT_NE(run.error().message.find("belady"), std::string::npos) << run.error().message;
}

// Whatever the policy and the number of threads: all that has to be computed is computed, nobody is
// faster than that, and nobody reads less than what cannot be in the window.
RC_GTEST_PROP(EveryPolicy, ServesManyThreads, ()) {
  const auto threads = *rc::gen::element(2u, 4u, 8u, 16u, 32u, 64u);
  const auto division = *rc::gen::element(Division::strips, Division::pieces);
  const Trace trace = model_of_threads(threads, 3, division);
  SimulatorOptions options;
  options.policy = any_policy();
  if (options.policy == "belady") options.policy = "pin-stream";
  options.window_chunks = *rc::gen::inRange(window_chunks_min, 80u);
  options.disk = any_disk();
  options.seed = *rc::gen::arbitrary<uint32_t>();
  options.keeps_slot = *rc::gen::element(true, true, false);
  options.processors = *rc::gen::element(1u, 3u, UINT32_MAX);
  RC_TAG(options.policy);
  options.on_action = [&](const policy::Action& action, const Situation& now) {
    const bool is_read = action.kind == policy::Action::Kind::read;
    RC_ASSERT(now.table.resident() <= options.window_chunks - (is_read ? 1 : 0));
  };
  const auto run = simulate(trace, options);
  RC_ASSERT(run.has_value());
  const auto undisturbed_ns = undisturbed_passes_ns(trace);
  uint64_t compute_ns = 0;
  for (size_t pass = 0; pass < run->passes.size(); ++pass) {
    const PassCounts& it = run->passes[pass];
    RC_ASSERT(it.time_ns >= undisturbed_ns[pass]);
    compute_ns += it.compute_ns;
  }
  const uint64_t reads =
      std::accumulate(run->passes.begin(), run->passes.end(), uint64_t{0},
                      [](uint64_t sum, const PassCounts& it) { return sum + it.reads; });
  const uint64_t missing = trace.chunks - std::min(trace.chunks, options.window_chunks);
  RC_ASSERT(reads >= trace.chunks + 2 * missing);
  RC_ASSERT(compute_ns == trace.compute_ns());
}

}  // namespace
}  // namespace weightpager::simulate::threads_test
