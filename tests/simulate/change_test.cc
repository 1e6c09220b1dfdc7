// How soon a run is as fast as one that had the later state all along.
#include "pager/simulate/change.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "pager/simulate/make_trace.h"

namespace weightpager::simulate {
namespace {

TEST(Recovery, IsWhereTwoPassesInARowAreNearlyAsFast) {
  const ChangeTimes times{.changed_ns = {150, 105, 130, 110, 108, 200},
                          .unchanged_ns = {100, 100, 100, 100, 100, 200},
                          .first_uses = {}};
  const Recovery it = recovery(times);
  EXPECT_EQ(it.passes, 3u);
  EXPECT_EQ(it.lost_ns, 103);
  EXPECT_DOUBLE_EQ(it.times_as_long[2], 1.3);
}

TEST(Recovery, NeverIsAllPasses) {
  EXPECT_EQ(recovery({.changed_ns = {100, 120, 100}, .unchanged_ns = {100, 100, 100}}).passes, 3u);
}

TEST(Recovery, OfSeveralTextsIsThatOfTheirSums) {
  ChangeTimes times{.changed_ns = {120, 100}, .unchanged_ns = {100, 100}, .first_uses = {1, 2}};
  times += {.changed_ns = {90, 100}, .unchanged_ns = {100, 100}, .missing_chunks = 3};
  EXPECT_EQ(recovery(times).passes, 0u);
  EXPECT_EQ(times.missing_chunks, 3u);
}

// 60 chunks at 2 ns each in passes that would take 50, 50 and 500.
TEST(Recovery, LosesAtLeastWhatTheDiskLacks) {
  const ChangeTimes times{
      .changed_ns = {}, .unchanged_ns = {50, 50, 500}, .first_uses = {30, 30, 0}};
  EXPECT_EQ(least_lost_ns(times, 2), 20u);
  EXPECT_EQ(least_lost_ns(times, 1), 0u);
}

// Beyond what the other run reads: 40, 15, 5 and no chunks at 2 ns each.
TEST(Recovery, IfInformedTakesTheTimeToReadWhatIsMissedBeyondTheOther) {
  const ChangeTimes times{.changed_ns = {900, 900, 900, 900},
                          .unchanged_ns = {100, 100, 100, 100},
                          .unchanged_reads = {20, 30, 10, 40},
                          .informed_misses = {60, 45, 15, 10}};
  const Recovery it = recovery_if_missing(times, times.informed_misses, 2);
  EXPECT_EQ(it.times_as_long, (std::vector<double>{1.8, 1.3, 1.1, 1.0}));
  EXPECT_EQ(it.passes, 2u);
  EXPECT_EQ(it.lost_ns, 120);
}

// 16 chunks fit. Of 20, the last 16 are there when the engine goes on to the first 16, and in every
// second pass to another one.
TEST(Changes, WhoIsInformedKeepsWhatIsUsedMostAndWhoLearnsWhatWasUsedMost) {
  RunWithChange run{.trace = {.chunk_bytes = MiB, .chunks = 20},
                    .change_pass = 1,
                    .window_chunks = 16,
                    .window_chunks_after = 16,
                    .uses = {}};
  for (ChunkId chunk = 0; chunk < 20; ++chunk) {
    run.uses.push_back(chunk < 16 ? 4 : chunk == 16 ? 2 : 0);
  }
  const auto add_pass = [&](ChunkId begin, ChunkId end) {
    run.trace.pass_begins.push_back(run.trace.touches.size());
    for (ChunkId chunk = begin; chunk < end; ++chunk) run.trace.touches.push_back({chunk, 0, 1000});
  };
  add_pass(4, 20);
  for (const ChunkId end : {16, 17, 16, 17}) add_pass(0, end);
  SimulatorOptions options;
  options.policy = "lru";
  options.disk = {"test", 2e9, 80'000, 16, 0};
  const auto times = simulate_change({"any", run, run}, options);
  ASSERT_TRUE(times.has_value()) << times.error().message;
  EXPECT_EQ(times->informed_misses, (std::vector<uint64_t>{4, 1, 0, 1}));
  // The first four had no use before the change, then one, as what they have to push out has; of
  // equals the last in the file stay. In the third pass three of them push it out, in the fourth
  // the last does, the odd one, which then is missed.
  EXPECT_EQ(times->learning_misses, (std::vector<uint64_t>{4, 4, 4, 2}));
  EXPECT_EQ(times->first_uses, (std::vector<uint64_t>{4, 0, 0, 0}));
  EXPECT_EQ(times->changed_ns, times->unchanged_ns);
  EXPECT_EQ(times->changed_reads, times->unchanged_reads);
}

/// In passes.
struct Outcome {
  size_t to_recover = 0;
  double lost = 0;
  double least_lost = 0;
};

/// Of some texts together, on a disk of 2 GB/s; by change.
std::map<std::string, Outcome> outcomes(const TraceShape& shape, uint64_t texts) {
  SimulatorOptions options;
  options.disk = {"test", 2e9, 80'000, 16, 0};
  const model::Model model = model_of(shape);
  std::map<std::string, ChangeTimes> sums;
  uint64_t chunk_bytes = 0;
  for (uint64_t seed = 1; seed <= texts; ++seed) {
    for (const Change& change : usual_changes(model, 8, seed)) {
      const auto times = simulate_change(change, options);
      EXPECT_TRUE(times.has_value());
      sums[change.name] += *times;
      chunk_bytes = change.changed.trace.chunk_bytes;
    }
  }
  std::map<std::string, Outcome> all;
  for (const auto& [name, times] : sums) {
    const auto pass_ns = static_cast<double>(times.unchanged_ns.back());
    const Recovery it = recovery(times);
    const auto least_ns = least_lost_ns(times, static_cast<double>(chunk_bytes) / 2);
    all[name] = {it.passes, static_cast<double>(it.lost_ns) / pass_ns,
                 static_cast<double>(least_ns) / pass_ns};
  }
  return all;
}

TEST(Changes, ADenseModelIsItselfAgainAfterAPassAndLosesWhatTheDiskTakes) {
  for (const auto& [name, it] : outcomes({.layers = 16, .dense_bytes = 64 * MiB}, 1)) {
    EXPECT_LE(it.to_recover, 1u) << name;
    EXPECT_LE(it.lost, it.least_lost + 0.1) << name;
  }
}

TEST(Changes, AMixtureThatKnowsItsExpertsIsSoonItselfAgain) {
  const TraceShape mixture{
      .layers = 8, .dense_bytes = 2 * MiB, .experts = 32, .experts_used = 4, .slab_bytes = MiB};
  auto it = outcomes(mixture, 4);
  EXPECT_LE(it["next prompt"].to_recover, 2u);
  EXPECT_LE(it["half the window"].to_recover, 1u);
  // The disk is never idle until then. Without experts that return by themselves: 2.01 passes.
  EXPECT_LE(it["twice the window"].to_recover, 5u);
  EXPECT_LE(it["twice the window"].lost, 1.8);
}

}  // namespace
}  // namespace weightpager::simulate
