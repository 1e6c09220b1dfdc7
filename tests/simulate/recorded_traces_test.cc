// What real engines touched (tests/data/traces, by tools/scripts/record_traces.sh), played with
// every policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "pager/policy/baselines/belady.h"
#include "pager/simulate/simulator.h"
#include "pager/simulate/trace_format.h"

namespace weightpager::simulate {
namespace {

Trace recorded(const std::string& name) {
  std::ifstream file(std::string(WP_TEST_TRACES "/") + name + ".trace", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto trace = decode(std::as_bytes(std::span(text)), name);
  EXPECT_TRUE(trace.has_value()) << trace.error().message;
  return std::move(*trace);
}

struct Sums {
  uint64_t reads = 0;
  uint64_t stall_ns = 0;
};

Sums play(const Trace& trace, std::string_view policy, double window_share, size_t from_pass = 0) {
  SimulatorOptions options;
  options.policy = policy;
  options.window_chunks = static_cast<uint32_t>(window_share * trace.chunks);
  options.disk = {"test", 2e9, 80'000, 16, 0};
  const auto run = simulate(trace, options);
  EXPECT_TRUE(run.has_value()) << run.error().message;
  Sums sums;
  for (size_t pass = from_pass; pass < run->passes.size(); ++pass) {
    sums.reads += run->passes[pass].reads;
    sums.stall_ns += run->passes[pass].stall_ns;
  }
  return sums;
}

class RecordedTrace : public testing::TestWithParam<const char*> {};

TEST_P(RecordedTrace, IsServedByEveryPolicyAndByNoneWithFewerReadsThanBelady) {
  const Trace trace = recorded(GetParam());
  for (const double share : {0.25, 0.5}) {
    const auto window = static_cast<uint32_t>(share * trace.chunks);
    const uint64_t least = policy::least_reads(trace.touched_chunks(), trace.chunks, window);
    for (const auto& it : policy::named_policies()) {
      EXPECT_GE(play(trace, it.name, share).reads, least) << it.name << " " << share;
    }
    EXPECT_EQ(play(trace, "belady", share).reads, least);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, RecordedTrace,
                         testing::Values("llama-dense", "llama-mixture", "torch-transformers"),
                         [](const auto& it) {
                           std::string name = it.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The order that the file tells is the one that llama.cpp goes by: what does not fit is read, and
// the ring.
TEST(RecordedTraces, DenseLlamaIsStreamed) {
  const Trace trace = recorded("llama-dense");
  const size_t from_pass = 4;
  const uint64_t first = trace.pass_begins[from_pass];
  for (const double share : {0.25, 0.5}) {
    const auto window = static_cast<uint32_t>(share * trace.chunks);
    const auto fixed =
        policy::reads_of_fixed_set(trace.touched_chunks(), trace.chunks, window, first);
    const auto passes = trace.pass_begins.size() - from_pass;
    const uint64_t ring = 64;  // 128 MiB, at most
    EXPECT_LE(play(trace, "expert", share, from_pass).reads, fixed + passes * ring);
    EXPECT_LT(play(trace, "expert", share, from_pass).stall_ns,
              play(trace, "lru", share, from_pass).stall_ns);
  }
}

TEST(RecordedTraces, AMixturesExpertsAreKept) {
  const Trace trace = recorded("llama-mixture");
  for (const double share : {0.25, 0.5}) {
    EXPECT_LT(2 * play(trace, "expert", share, 4).stall_ns, play(trace, "lru", share, 4).stall_ns);
  }
}

}  // namespace
}  // namespace weightpager::simulate
