// Made-up traces touch what an engine would.
#include "pager/simulate/make_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/simulate/random_trace.h"

namespace weightpager::simulate {
namespace {

TEST(MakeTrace, DensePassesTouchEverythingInOrder) {
  const Trace trace = dense(3, 4, 2);
  EXPECT_EQ(trace.chunks, 12u);
  EXPECT_EQ(trace.pass_begins, (std::vector<uint64_t>{0, 12}));
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(trace.touches[i].chunk, i % 12);
  EXPECT_EQ(trace.order.layer_begins, (std::vector<uint32_t>{0, 4, 8}));
}

TEST(MakeTrace, ComputingTakesItsBytes) {
  Workload work = workload(1);
  work.compute_bytes_per_s = 10e9;
  const Trace trace = make_trace(model_of({.layers = 4, .dense_bytes = 25 * MiB}), work, "test");
  EXPECT_NEAR(static_cast<double>(trace.compute_ns()), 100.0 * MiB / 10e9 * 1e9, 1000);
}

TEST(MakeTrace, ThePromptComputesLongerAndUsesEveryExpert) {
  Workload work = workload(3);
  work.prompt_passes = 1;
  work.prompt_factor = 5;
  const TraceShape shape{
      .layers = 2, .dense_bytes = 2 * MiB, .experts = 8, .experts_used = 2, .slab_bytes = 4 * MiB};
  const Trace trace = make_trace(model_of(shape), work, "test");
  const auto chunks_of = [&](size_t pass) {
    std::set<ChunkId> chunks;
    for (uint64_t i = trace.pass_begins[pass]; i < trace.pass_end(pass); ++i) {
      chunks.insert(trace.touches[i].chunk);
    }
    return chunks.size();
  };
  EXPECT_EQ(chunks_of(0), trace.chunks);
  EXPECT_LT(chunks_of(1), trace.chunks / 2);
}

TEST(MakeTrace, AZipfRouterHasFavouritesAndAnEvenOneHasNone) {
  const auto share_of_most_used = [](double exponent) {
    const Trace trace = mixture(exponent, 0, 5, 400);
    std::map<ChunkId, uint64_t> uses;
    uint64_t all = 0;
    for (const Touch& touch : trace.touches) {
      const bool is_dense = std::find(trace.order.cyclic.begin(), trace.order.cyclic.end(),
                                      touch.chunk) != trace.order.cyclic.end();
      if (is_dense) continue;
      ++uses[touch.chunk];
      ++all;
    }
    uint64_t most = 0;
    for (const auto& [chunk, count] : uses) most = std::max(most, count);
    return static_cast<double>(most) / static_cast<double>(all);
  };
  EXPECT_GT(share_of_most_used(1.2), 1.5 * share_of_most_used(0));
}

TEST(MakeTrace, InterleavedModelsTakeTurns) {
  const Trace both = interleave({dense(2, 3, 2), dense(1, 5, 2)}, "two");
  EXPECT_EQ(both.chunks, 11u);
  EXPECT_EQ(both.pass_begins, (std::vector<uint64_t>{0, 11}));
  for (size_t i = 0; i < 22; ++i) EXPECT_EQ(both.touches[i].chunk, i % 11);
  EXPECT_EQ(both.order.layer_begins, (std::vector<uint32_t>{0, 3, 6}));
}

TEST(MakeTrace, TheSeedDecides) {
  EXPECT_EQ(mixture(1, 5, 3).touched_chunks(), mixture(1, 5, 3).touched_chunks());
  EXPECT_NE(mixture(1, 5, 3).touched_chunks(), mixture(1, 5, 4).touched_chunks());
}

}  // namespace
}  // namespace weightpager::simulate
