// What is to be expected of each policy by theory.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "pager/policy/baselines/belady.h"
#include "pager/simulate/engine_threads.h"
#include "pager/simulate/simulator.h"
#include "tests/simulate/random_trace.h"

namespace weightpager::simulate {
namespace {

constexpr uint32_t layers = 20;
constexpr uint32_t layer_chunks = 20;
constexpr uint32_t model_chunks = layers * layer_chunks;

SimulatedRun run(const Trace& trace, const std::string& policy, uint32_t window_chunks,
                 double gb_per_s = 3) {
  SimulatorOptions options;
  options.policy = policy;
  options.window_chunks = window_chunks;
  options.disk = {"test", gb_per_s * 1e9, 80'000, 16, 0};
  auto simulated = simulate(trace, options);
  EXPECT_TRUE(simulated.has_value()) << simulated.error().message;
  return std::move(*simulated);
}

// Without the first passes, which fill the window and learn.
PassCounts later_passes(const SimulatedRun& run, size_t from = 3) {
  PassCounts sum;
  for (size_t i = from; i < run.passes.size(); ++i) {
    sum.time_ns += run.passes[i].time_ns;
    sum.stall_ns += run.passes[i].stall_ns;
    sum.compute_ns += run.passes[i].compute_ns;
    sum.reads += run.passes[i].reads;
    sum.demand_reads += run.passes[i].demand_reads;
  }
  return sum;
}

double reads_per_pass(const SimulatedRun& run, size_t from = 3) {
  return static_cast<double>(later_passes(run, from).reads) /
         static_cast<double>(run.passes.size() - from);
}

TEST(Policies, LruReadsTheWholeModelEveryPass) {
  const Trace trace = dense(layers, layer_chunks, 8);
  for (const uint32_t window : {40u, 200u, 360u}) {
    EXPECT_EQ(reads_per_pass(run(trace, "lru", window)), model_chunks) << window;
    EXPECT_EQ(reads_per_pass(run(trace, "demand", window)), model_chunks) << window;
  }
}

TEST(Policies, RingReadsTheWholeModelEveryPass) {
  const Trace trace = dense(layers, layer_chunks, 8);
  for (const uint32_t window : {40u, 200u, 360u}) {
    EXPECT_NEAR(reads_per_pass(run(trace, "ring", window)), model_chunks, 0.01 * model_chunks)
        << window;
  }
}

RC_GTEST_PROP(Policies, PinStreamReadsWhatDoesNotFit, ()) {
  const auto window = *rc::gen::inRange(window_chunks_min, model_chunks);
  const Trace trace = dense(layers, layer_chunks, 14);
  const SimulatedRun it = run(trace, "pin-stream", window);
  const double streamed = model_chunks - window + it.ring_chunks;
  RC_ASSERT(reads_per_pass(it) <= 1.02 * streamed);
}

TEST(Policies, BeladyReadsWhatDoesNotFit) {
  const Trace trace = dense(layers, layer_chunks, 24);
  // Of N chunks in a circle, W stay: (N − W) N / (N − 1) reads a pass, by theory.
  for (const uint32_t window : {40u, 200u, 360u}) {
    const double least = (model_chunks - window) * double{model_chunks} / (model_chunks - 1);
    EXPECT_NEAR(reads_per_pass(run(trace, "belady", window)), least, 0.02 * model_chunks) << window;
  }
}

TEST(FixedSet, KeepsOfACyclicModelWhatFitsBesideOneChunk) {
  const Trace trace = dense(layers, layer_chunks, 8);
  const auto touched = trace.touched_chunks();
  for (const uint32_t window : {40u, 200u, 360u}) {
    const uint64_t reads = policy::reads_of_fixed_set(touched, trace.chunks, window, 0);
    EXPECT_EQ(reads, 8 * (model_chunks - window + 1));
    EXPECT_EQ(policy::reads_of_fixed_set(touched, trace.chunks, window, 7 * model_chunks),
              reads / 8);
  }
}

TEST(FixedSet, KeepsWhatIsTouchedMost) {
  const std::vector<ChunkId> touched{0, 1, 2, 1, 1, 3, 1, 2, 2, 0};
  // 1 stays; of the others those count that follow another one.
  EXPECT_EQ(policy::reads_of_fixed_set(touched, 4, 2, 0), 5u);
  EXPECT_EQ(policy::reads_of_fixed_set(touched, 4, 3, 0), 3u);
  EXPECT_EQ(policy::reads_of_fixed_set(touched, 4, 5, 0), 0u);
}

TEST(LearnedSet, KeepsWhatWasTouchedMostUntilThen) {
  const std::vector<ChunkId> touched{0, 1, 1, 0, 0, 1, 1, 0, 2, 0};
  // One stays beside what passes. 0 until 1 has the second touch, then 1, until 0 has its third;
  // 1 takes the place with its fourth, 0 with its fifth, which is the last touch.
  EXPECT_EQ(policy::reads_of_learned_set(touched, 3, 2, 0), 7u);
  EXPECT_EQ(policy::reads_of_learned_set(touched, 3, 2, 8), 2u);
  EXPECT_EQ(policy::reads_of_learned_set(touched, 3, 3, 0), 3u);
  EXPECT_EQ(policy::reads_of_learned_set(touched, 3, 4, 0), 3u);
}

TEST(LearnedSet, OfACircleKeepsWhatCameFirst) {
  const Trace trace = dense(layers, layer_chunks, 8);
  const auto touched = trace.touched_chunks();
  for (const uint32_t window : {40u, 200u, 360u}) {
    EXPECT_EQ(policy::reads_of_learned_set(touched, trace.chunks, window, 7 * model_chunks),
              model_chunks - window + 1);
  }
}

TEST(Policies, EverythingFitsMeansNothingIsRead) {
  const Trace trace = dense(layers, layer_chunks, 6);
  for (const policy::NamedPolicy& policy : policy::named_policies()) {
    const SimulatedRun it = run(trace, std::string(policy.name), model_chunks + 32);
    EXPECT_EQ(later_passes(it).reads, 0u) << policy.name;
  }
}

// A disk that is fast enough for everything: whoever reads ahead does not wait.
TEST(Policies, ReadingAheadHidesReads) {
  const Trace trace = dense(layers, layer_chunks, 8);
  for (const char* policy : {"next-layer", "double-buffer", "ring", "pin-stream", "learned"}) {
    const PassCounts it = later_passes(run(trace, policy, 120, 100));
    EXPECT_LT(it.stall_ns, it.compute_ns / 5) << policy;
  }
  const PassCounts waiting = later_passes(run(trace, "lru", 120, 100));
  EXPECT_GT(waiting.stall_ns, waiting.compute_ns);
}

TEST(Policies, ReadaheadReadsFurtherEachTime) {
  const Trace trace = dense(layers, layer_chunks, 6);
  const PassCounts it = later_passes(run(trace, "readahead", 200));
  EXPECT_EQ(it.reads, uint64_t{3} * model_chunks);
  EXPECT_LT(it.demand_reads, it.reads / 20);
}

// Each thread has its strip of every layer. Every policy is judged: nobody is faster than computing
// or reading what does not fit, and pin-stream, which learns where threads go, comes near to that
// and is faster than those who read on demand, or all of the model.
TEST(Policies, OfMatricesThatThreadsSweepPinStreamReadsWhatDoesNotFit) {
  constexpr uint32_t window = model_chunks / 4;
  constexpr double gb_per_s = 7;
  for (const uint32_t threads : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    Workload work = workload(8);
    work.threads = threads;
    const TraceShape shape{.layers = layers,
                           .dense_bytes = layer_chunks * chunk_bytes_max - 3 * KiB};
    const Trace trace = make_trace(model_of(shape), work, "threads");
    const double missing = trace.chunks - window;
    const double compute_ns = static_cast<double>(undisturbed_passes_ns(trace).back());
    const double least_ns = std::max(missing * chunk_bytes_max / gb_per_s, compute_ns);
    const SimulatedRun ours = run(trace, "pin-stream", window, gb_per_s);
    const double ours_ns = static_cast<double>(later_passes(ours).time_ns) / 5;
    EXPECT_LE(reads_per_pass(ours), 1.03 * (missing + ours.ring_chunks)) << threads;
    EXPECT_LE(ours_ns, least_ns / 0.85) << threads;
    for (const policy::NamedPolicy& policy : policy::named_policies()) {
      if (policy.needs_future) continue;
      const SimulatedRun its = run(trace, std::string(policy.name), window, gb_per_s);
      const double its_ns = static_cast<double>(later_passes(its).time_ns) / 5;
      EXPECT_GE(reads_per_pass(its), 0.99 * missing) << policy.name << " " << threads;
      EXPECT_GE(its_ns, 0.99 * least_ns) << policy.name << " " << threads;
      const bool keeps_nothing = policy.name == "lru" || policy.name == "demand" ||
                                 policy.name == "readahead" || policy.name == "ring";
      if (keeps_nothing) {
        EXPECT_LT(ours_ns, its_ns) << policy.name << " " << threads;
      }
    }
  }
}

// Half of the layers compute ten times as long as the others: their reads hide, the others' do not.
TEST(Policies, LearnedPinsWhereComputingIsShort) {
  Trace trace = dense(layers, layer_chunks, 12);
  for (Touch& touch : trace.touches) {
    touch.compute_ns = touch.chunk < model_chunks / 2 ? 100'000 : 1'000'000;
  }
  const PassCounts even = later_passes(run(trace, "pin-stream", 200), 6);
  const PassCounts learned = later_passes(run(trace, "learned", 200), 6);
  EXPECT_LE(learned.reads, even.reads + model_chunks / 20);
  EXPECT_LT(static_cast<double>(learned.stall_ns), 0.5 * static_cast<double>(even.stall_ns));
}

// What one run learned in four passes the next one begins with: as soon as everything was read
// once, it stalls no longer than the first one at last.
TEST(Policies, AnAccessProfileSparesTheNextRunItsStalls) {
  Trace trace = dense(layers, layer_chunks, 8);
  for (Touch& touch : trace.touches) {
    touch.compute_ns = touch.chunk < model_chunks / 2 ? 100'000 : 1'000'000;
  }
  const SimulatedRun unprofiled = run(trace, "learned", 200);
  trace.order.access_profile = unprofiled.access_profile;
  const SimulatedRun profiled = run(trace, "learned", 200);
  for (size_t pass = 0; pass < 5; ++pass) {
    std::printf(
        "pass %zu: stalls %4.1f ms, with a profile %4.1f ms; reads %3lu, with a profile %3lu\n",
        pass + 1, static_cast<double>(unprofiled.passes[pass].stall_ns) / 1e6,
        static_cast<double>(profiled.passes[pass].stall_ns) / 1e6, unprofiled.passes[pass].reads,
        profiled.passes[pass].reads);
  }
  for (const size_t pass : {1u, 2u}) {
    EXPECT_LT(5 * profiled.passes[pass].stall_ns, unprofiled.passes[pass].stall_ns) << pass;
    EXPECT_LT(profiled.passes[pass].stall_ns, unprofiled.passes.back().stall_ns * 11 / 10) << pass;
  }
}

// The files tell the order wrongly: the first pass of the next run is as fast as it can be.
TEST(Policies, AnAccessProfileTellsAnOrderThatTheFilesDoNot) {
  Trace trace = dense(layers, layer_chunks, 4);
  std::shuffle(trace.order.cyclic.begin(), trace.order.cyclic.end(), std::mt19937_64(5));
  for (const char* policy : {"expert", "learned"}) {
    const SimulatedRun unprofiled = run(trace, policy, 200);
    Trace again = trace;
    again.order.access_profile = unprofiled.access_profile;
    const SimulatedRun profiled = run(again, policy, 200);
    std::printf("%s: first pass stalls %.1f ms, with a profile %.1f ms\n", policy,
                static_cast<double>(unprofiled.passes[0].stall_ns) / 1e6,
                static_cast<double>(profiled.passes[0].stall_ns) / 1e6);
    EXPECT_LT(10 * profiled.passes[0].demand_reads, unprofiled.passes[0].demand_reads) << policy;
    EXPECT_LT(profiled.passes[0].stall_ns, unprofiled.passes[0].stall_ns * 2 / 3) << policy;
  }
}

/// Reads of whoever knows how often each chunk will be used from pass `from` on, and keeps those
/// that are used most, always the same. Where routing depends on nothing, nobody who does not know
/// the future does better.
double fixed_reads_per_pass(const Trace& trace, size_t window, size_t from) {
  std::vector<uint64_t> uses(trace.chunks, 0);
  for (size_t pass = from; pass < trace.pass_begins.size(); ++pass) {
    std::set<ChunkId> used;
    for (uint64_t place = trace.pass_begins[pass]; place < trace.pass_end(pass); ++place) {
      used.insert(trace.touches[place].chunk);
    }
    for (const ChunkId chunk : used) ++uses[chunk];
  }
  std::sort(uses.begin(), uses.end());
  uses.resize(uses.size() - window);
  return static_cast<double>(std::accumulate(uses.begin(), uses.end(), uint64_t{0})) /
         static_cast<double>(trace.pass_begins.size() - from);
}

TEST(Policies, ExpertReadsLittleMoreOfAMixtureThanIsPossible) {
  const Trace trace = mixture(1.0, 0, 7, 200);
  for (const uint32_t window : {trace.chunks / 4, trace.chunks / 2}) {
    const double reads = reads_per_pass(run(trace, "expert", window), 40);
    EXPECT_LE(reads, 1.2 * fixed_reads_per_pass(trace, window, 40)) << window;
  }
}

TEST(Policies, ExpertStallsLessThanHalfAsLongAsLru) {
  for (const uint32_t drift_passes : {0u, 10u}) {
    const Trace trace = mixture(1.0, drift_passes, 7, 120);
    for (const uint32_t window : {trace.chunks / 4, trace.chunks / 2}) {
      EXPECT_LE(2 * later_passes(run(trace, "expert", window), 20).stall_ns,
                later_passes(run(trace, "lru", window), 20).stall_ns)
          << "window " << window << ", drift " << drift_passes;
    }
  }
}

// From a prompt, which uses every expert, to decoding.
TEST(Policies, ThePromptIsForgotten) {
  Workload work = workload(60, 3);
  const TraceShape shape{
      .layers = 6, .dense_bytes = 2 * MiB, .experts = 16, .experts_used = 3, .slab_bytes = 1 * MiB};
  const Trace decode = make_trace(model_of(shape), work, "decode");
  work.prompt_passes = 3;
  const Trace both = make_trace(model_of(shape), work, "prompt and decode");
  const auto window = decode.chunks / 2;
  const double settled_ns =
      static_cast<double>(later_passes(run(decode, "expert", window), 30).time_ns);
  EXPECT_LT(static_cast<double>(later_passes(run(both, "expert", window), 30).time_ns),
            1.1 * settled_ns);
}

}  // namespace
}  // namespace weightpager::simulate
