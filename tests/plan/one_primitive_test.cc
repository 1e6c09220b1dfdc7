// One primitive everywhere, against all selections of small networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/network/parser.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/network_instance.h"
#include "tests/plan/random_instance.h"

namespace weightpager::plan {
namespace {

const std::vector<std::string> known_kinds = {"direct", "im2col", "winograd", "tiles"};

/// Kinds for each candidate; every fourth node computes by none.
PrimitiveKinds random_kinds(const Instance& instance, RandomInstances& random) {
  PrimitiveKinds kinds;
  for (const Node& node : instance.nodes) {
    auto& names = kinds.emplace_back(node.candidates.size());
    if (random.up_to(3) == 0) continue;
    for (std::string& name : names) name = known_kinds[random.up_to(known_kinds.size() - 1)];
  }
  return kinds;
}

bool has_kind(const std::vector<std::string>& kinds, const std::string& kind) {
  return std::count(kinds.begin(), kinds.end(), kind) > 0;
}

/// Whether a node may have this kind: it is the first of the order that the node has.
bool may_have(const std::vector<std::string>& kinds, const std::string& kind,
              const std::vector<std::string>& order) {
  for (const std::string& wanted : order) {
    if (has_kind(kinds, wanted)) return kind == wanted;
  }
  return true;
}

bool is_allowed(const PrimitiveKinds& kinds, const Selection& it,
                const std::vector<std::string>& order) {
  for (size_t node = 0; node < kinds.size(); ++node) {
    if (!may_have(kinds[node], kinds[node][it.candidates[node]], order)) return false;
  }
  return true;
}

TEST(OnePrimitive, IsTheFastestOfAllSelectionsThatAreAllowed) {
  size_t nodes_by_it = 0;
  size_t nodes_by_others = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RandomInstances random(seed);
    const Instance instance = random.make(6, 4);
    const PrimitiveKinds kinds = random_kinds(instance, random);
    // The order has a kind that no node has, and lacks one that some have.
    const std::vector<std::string> order = {known_kinds[seed % 3], "fft", "im2col", "direct"};
    double least_ns = std::numeric_limits<double>::infinity();
    for_each_selection(instance, [&](const Selection& it) {
      if (is_allowed(kinds, it, order)) least_ns = std::min(least_ns, it.time_ns);
    });

    const auto found =
        one_primitive_everywhere(instance, kinds, order[0], std::span(order).subspan(1));
    ASSERT_TRUE(found) << found.error().message;
    const Selection& selection = found->selection;
    EXPECT_TRUE(is_allowed(kinds, selection, order)) << seed;
    EXPECT_EQ(selection.time_ns, least_ns) << seed;
    const Selection again = evaluate(instance, selection.candidates);
    EXPECT_EQ(again.time_ns, selection.time_ns) << seed;
    EXPECT_EQ(again.memory_bytes(), selection.memory_bytes()) << seed;
    EXPECT_LE(fastest_ignoring_memory(instance)->time_ns, selection.time_ns) << seed;

    size_t having = 0;
    size_t others = 0;
    for (const auto& names : kinds) {
      if (has_kind(names, order[0])) {
        ++having;
      } else if (!names[0].empty()) {
        ++others;
      }
    }
    EXPECT_EQ(found->nodes_by_it, having) << seed;
    EXPECT_EQ(found->nodes_by_others, others) << seed;
    nodes_by_it += having;
    nodes_by_others += others;
  }
  EXPECT_GT(nodes_by_it, 100U);
  EXPECT_GT(nodes_by_others, 100U);
}

TEST(KeepKinds, KeepsOfTheFirstSetAndOtherwiseAll) {
  const Candidate it;
  const Instance instance{.nodes = {{{it, it, it}, "first"}, {{it, it}, "second"}, {{it}, "none"}}};
  const PrimitiveKinds kinds = {{"direct", "winograd", "im2col"}, {"im2col", "im2col"}, {""}};
  const std::vector<KindSet> preferred = {{"winograd", "direct"}, {"kn2row"}};
  const FewerCandidates fewer = keep_kinds(instance, kinds, preferred);
  EXPECT_EQ(fewer.numbers, (std::vector<std::vector<uint32_t>>{{0, 1}, {0, 1}, {0}}));
  for (size_t node = 0; node < 3; ++node)
    EXPECT_EQ(fewer.instance.nodes[node].candidates.size(), fewer.numbers[node].size());
}

TEST(PrimitiveKinds, AreWhatCandidatesNamesSay) {
  const auto network = network::parse_network(
      "[net]\nheight=8\nwidth=8\nchannels=8\n"
      "[convolutional]\nfilters=8\nsize=3\nstride=1\npad=1\nactivation=relu\n"
      "[maxpool]\nsize=2\nstride=2\n",
      "net.cfg");
  ASSERT_TRUE(network) << network.error().message;
  const std::vector<std::string> names = {"tiles nchw",
                                          "im2col nchw-nhwc",
                                          "im2row-strips nhwc",
                                          "kn2row nchw",
                                          "direct nhwc",
                                          "x64:gemm:jit nchw",
                                          "jit_1x1:avx512_core nChw16c",
                                          "brgconv:avx512_core nhwc",
                                          "jit_fp32_wino_2x3:avx512_core nChw16c",
                                          "jit_wino_4x3:avx512_core nChw16c"};
  const NetworkInstance instance{.names = {{""}, names, {"nchw", "nhwc"}}};
  const PrimitiveKinds expected = {{""},
                                   {"tiles", "im2col", "im2row-strips", "kn2row", "direct", "gemm",
                                    "jit", "jit", "winograd", "winograd"},
                                   {"", ""}};
  EXPECT_EQ(primitive_kinds(*network, instance), expected);
}

}  // namespace
}  // namespace weightpager::plan
