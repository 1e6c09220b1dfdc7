// Joint plans: within the budget, never worse than planning one thing after the other, no better
// than their bound, and on small networks as good as trying everything.
#include "runtime/plan/joint_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "pager/base/units.h"
#include "runtime/memory/activations.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/plan_file.h"
#include "tests/ops/compute_threads.h"
#include "tests/plan/plausible_profile.h"

namespace weightpager::plan {
namespace {

using network::Network;
using ops::compute_threads;

Network parsed(const std::string& text) {
  auto network = network::parse_network(text, "net.cfg");
  EXPECT_TRUE(network) << network.error().message;
  return std::move(*network);
}

Network made(const std::string& name) { return parsed(*network::make_description(name)); }

/// A network with a planner, and what that refers to.
struct Planning {
  Network network;
  Profile profile;
  std::optional<JointPlanner> planner;

  explicit Planning(Network planned)
      : Planning(planned, plausible_profile(planned, compute_threads)) {}
  Planning(Network planned, Profile measured, JointSettings settings = {})
      : network(std::move(planned)), profile(std::move(measured)) {
    settings.threads = compute_threads;
    auto made = JointPlanner::make(network, profile, settings);
    EXPECT_TRUE(made) << made.error().message;
    planner.emplace(std::move(*made));
  }
  Planning(const Planning&) = delete;

  // From the least to what is enough, each the same factor above the one before.
  std::vector<uint64_t> budgets(int count) const {
    std::vector<uint64_t> all;
    const auto least = static_cast<double>(planner->least_bytes());
    const double ratio = static_cast<double>(planner->most_bytes()) / least;
    for (int i = 0; i < count; ++i) {
      all.push_back(
          static_cast<uint64_t>(least * std::pow(ratio, static_cast<double>(i) / (count - 1))));
    }
    all.front() = planner->least_bytes();
    all.back() = planner->most_bytes();
    return all;
  }
};

// Pieces are the network, what is pinned and the ring are as large as they are said to be.
void expect_consistent(const Network& network, const JointPlan& plan, uint64_t budget_bytes) {
  EXPECT_LE(plan.memory_bytes(), budget_bytes);
  EXPECT_GT(plan.bound_ns, 0u);
  EXPECT_LE(plan.bound_ns, plan.delay_ns);
  EXPECT_LE(plan.compute_ns, plan.delay_ns);
  EXPECT_GE(plan.arena_bytes, plan.activation_bytes);
  ASSERT_EQ(plan.pieces.size(), plan.is_pinned.size());
  ASSERT_EQ(plan.pieces.size(), plan.kernel_ns.size());
  EXPECT_EQ(plan.choices.back().layout_out, ops::Layout::nchw);
  size_t piece = 0;
  for (uint32_t layer = 0; layer < network.layers.size(); ++layer) {
    uint32_t channel = 0;
    const auto channels = static_cast<uint32_t>(network.layers[layer].channels_with_bias());
    do {
      ASSERT_LT(piece, plan.pieces.size());
      const network::Piece& it = plan.pieces[piece++];
      ASSERT_EQ(it.layer, layer);
      ASSERT_EQ(it.first_channel, channel);
      channel = it.end_channel;
    } while (channel < channels);
    ASSERT_EQ(channel, channels);
  }
  EXPECT_EQ(piece, plan.pieces.size());
}

// Sanitizers look at the code, not at the plans. bench/joint_plans_everywhere does all networks.
#ifdef __SANITIZE_ADDRESS__
constexpr int budgets_tried = 4;
#else
constexpr int budgets_tried = 20;
#endif

class JointPlans : public testing::TestWithParam<const char*> {};

TEST_P(JointPlans, AreNeverWorseThanOneThingAfterTheOther) {
  Planning it(made(GetParam()));
  uint64_t before_ns = UINT64_MAX;
  int with_others = 0;
  for (const uint64_t budget_bytes : it.budgets(budgets_tried)) {
    const auto plan = it.planner->plan(budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_consistent(it.network, *plan, budget_bytes);
    EXPECT_LE(plan->delay_ns, before_ns) << "more memory makes it slower: " << budget_bytes;
    before_ns = plan->delay_ns;
    const auto others = it.planner->plans_one_after_another(budget_bytes);
    // What is planned one after the other may need more than the least.
    with_others += !others.empty();
    for (const JointPlan& other : others) {
      expect_consistent(it.network, other, budget_bytes);
      EXPECT_LE(plan->delay_ns, other.delay_ns) << budget_bytes;
      EXPECT_LE(other.bound_ns, plan->delay_ns) << budget_bytes;
    }
  }
  EXPECT_GT(with_others, budgets_tried / 2);
  // With room for everything, the fastest there is.
  EXPECT_EQ(before_ns, it.planner->plans_one_after_another(it.planner->most_bytes())[1].compute_ns);
}

INSTANTIATE_TEST_SUITE_P(Networks, JointPlans, testing::Values("squeezenet"));

// Without any time there is a plan all the same, and what is proved of it is true; with enough, it
// is the one that there is without a limit.
TEST(JointPlan, EndsWithItsTime) {
  Planning it(made("squeezenet"));
  auto hasty =
      JointPlanner::make(it.network, it.profile, {.threads = compute_threads}, TimeLimit(0));
  ASSERT_TRUE(hasty);
  EXPECT_GE(hasty->least_bytes(), it.planner->least_bytes());
  Planning without_limit(made("squeezenet"));
  for (const uint64_t budget_bytes : it.budgets(4)) {
    const auto best = it.planner->plan(budget_bytes, TimeLimit(1e6));
    ASSERT_TRUE(best);
    EXPECT_FALSE(best->is_cut_short);
    EXPECT_EQ(best->delay_ns, without_limit.planner->plan(budget_bytes)->delay_ns);
    if (budget_bytes < hasty->least_bytes()) continue;
    const auto plan = hasty->plan(budget_bytes, TimeLimit(0));
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->is_cut_short);
    expect_consistent(it.network, *plan, budget_bytes);
    EXPECT_GE(plan->delay_ns, best->delay_ns);
    EXPECT_LE(plan->bound_ns, best->delay_ns);
  }
}

// Of networks whose weights are a choice. Many more fronts or windows are what planning for minutes
// looked like; so many are what it takes today, and half as many again.
TEST(JointPlan, TakesFewFrontsAndWindows) {
  const Network network = made("squeezenet");
  Planning it(network, with_avx512(network, plausible_profile(network, compute_threads)));
  size_t windows_before = 0;
  for (const uint64_t budget_bytes : it.budgets(budgets_tried)) {
    ASSERT_TRUE(it.planner->plan(budget_bytes));
    const PlanningWork work = it.planner->work();
    EXPECT_LE(work.windows - windows_before, 260u) << budget_bytes;
    windows_before = work.windows;
  }
  EXPECT_LE(it.planner->work().fronts, 60u);
}

// From a disk that nobody waits for, a pass takes what its kernels take and what reads take from
// them: so much for each, and so much for each byte; and a little for each kernel's beginning.
TEST(JointPlan, ReadsTakeTheirTimeFromProcessors) {
  const Network network = made("squeezenet");
  const TakenByReads taken = {.ns_per_byte = 0.5, .ns_per_read = 30'000};
  Planning it(network, plausible_profile(network, compute_threads),
              {.read_bytes_per_s = 1e15, .read_latency_ns = 0, .taken = taken});
  int with_reads = 0;
  for (const uint64_t budget_bytes : it.budgets(5)) {
    const auto plan = it.planner->plan(budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    double expected_ns = plan->reads_per_pass * taken.ns_per_read +
                         static_cast<double>(plan->read_bytes_per_pass) * taken.ns_per_byte;
    for (const uint64_t kernel_ns : plan->kernel_ns) expected_ns += static_cast<double>(kernel_ns);
    EXPECT_GE(static_cast<double>(plan->delay_ns), 0.9999 * expected_ns);
    EXPECT_LE(static_cast<double>(plan->delay_ns), 1.03 * expected_ns);
    with_reads += plan->reads_per_pass > 0;
    EXPECT_EQ(plan->reads_per_pass > 0, plan->read_bytes_per_pass > 0);
  }
  EXPECT_GE(with_reads, 2);
}

constexpr const char* small = R"(
[net]
height=32
width=32
channels=3
[convolutional]
filters=64
size=3
stride=1
pad=1
activation=relu
[convolutional]
filters=64
size=3
stride=1
pad=1
activation=relu
[shortcut]
from=-2
activation=linear
[maxpool]
size=2
stride=2
[convolutional]
filters=128
size=3
stride=1
pad=1
activation=relu
[avgpool]
[connected]
output=1000
activation=linear
)";

// A few candidates of each convolution, so that all selections can be tried.
Profile with_few_candidates(Profile profile) {
  for (auto& [key, measured] : profile.convolutions) {
    std::vector<MeasuredCandidate> kept;
    for (const MeasuredCandidate& it : measured) {
      const std::string& name = it.traits.name;
      if (name == ops::in_tiles || name.find("wino_4x3") != std::string::npos ||
          (name == "im2row" && it.traits.layout_out == ops::Layout::nhwc)) {
        kept.push_back(it);
      }
    }
    measured = std::move(kept);
  }
  return profile;
}

// The best of all selections, each with the planner's own windows: planned as if there were nothing
// else to choose from.
uint64_t least_delay_of_all(const Network& network, const Profile& profile, uint64_t budget_bytes) {
  const Instance instance =
      make_instance(network, profile, SelectionScope::whole_network, 0).instance;
  std::vector<uint32_t> candidates(instance.nodes.size());
  uint64_t least_ns = UINT64_MAX;
  const std::function<void(size_t)> choose = [&](size_t layer) {
    if (layer == network.layers.size()) {
      // A profile with what was chosen only. Equal convolutions would need two.
      Profile chosen = profile;
      for (uint32_t i = 0; i < network.layers.size(); ++i) {
        if (!std::holds_alternative<network::Convolutional>(network.layers[i].operation)) continue;
        const std::string key = convolution_key(network.layers[i]);
        chosen.convolutions[key] = {
            profile.convolutions.at(key)[candidates[NetworkInstance::node_of_layer(i)]]};
      }
      Planning alone(network, chosen);
      if (budget_bytes < alone.planner->least_bytes()) return;
      const auto plan = alone.planner->plan(budget_bytes);
      ASSERT_TRUE(plan) << plan.error().message;
      least_ns = std::min(least_ns, plan->delay_ns);
      return;
    }
    const uint32_t node = NetworkInstance::node_of_layer(static_cast<uint32_t>(layer));
    const bool has_choice =
        std::holds_alternative<network::Convolutional>(network.layers[layer].operation);
    const size_t choices = has_choice ? instance.nodes[node].candidates.size() : 1;
    for (candidates[node] = 0; candidates[node] < choices; ++candidates[node]) choose(layer + 1);
    candidates[node] = 0;
  };
  choose(0);
  return least_ns;
}

TEST(JointPlan, IsAsGoodAsTryingEverything) {
  const Network network = parsed(small);
  const Profile profile = with_few_candidates(plausible_profile(network, compute_threads));
  for (const auto& [key, measured] : profile.convolutions) ASSERT_GE(measured.size(), 2u) << key;
  Planning it(network, profile);
  for (const uint64_t budget_bytes : it.budgets(4)) {
    const auto plan = it.planner->plan(budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    const uint64_t least_ns = least_delay_of_all(network, profile, budget_bytes);
    EXPECT_LE(plan->bound_ns, least_ns) << budget_bytes;
    // Which rings and pins are tried is not exact.
    EXPECT_LE(static_cast<double>(plan->delay_ns), 1.002 * static_cast<double>(least_ns))
        << budget_bytes;
  }
}

TEST(JointPlan, BelowTheLeastIsRefusedWithWhatForcesIt) {
  Planning it(parsed(small));
  const uint64_t least_bytes = it.planner->least_bytes();
  EXPECT_TRUE(it.planner->plan(least_bytes));
  const auto refused = it.planner->plan(least_bytes - 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(std::to_string(least_bytes)), std::string::npos);
  EXPECT_NE(refused.error().message.find("layer"), std::string::npos) << refused.error().message;
}

// A first convolution for whose tiles much is unfolded, and a last one whose weights come in tiles
// or not at all: the least budget mixes both kinds.
constexpr const char* mixture = R"(
[net]
height=96
width=96
channels=16
[convolutional]
filters=16
size=3
stride=1
pad=1
activation=relu
[maxpool]
size=2
stride=2
[convolutional]
filters=32
size=3
stride=4
pad=1
activation=relu
[convolutional]
filters=1024
size=3
stride=2
pad=1
activation=linear
)";

// The largest piece, cut as small as it goes. Its own arithmetic: all channels' bytes over the
// channels, steps of them, in whole pages and one more, and never more than the whole layer.
uint64_t piece_bytes(const network::Layer& layer, uint64_t packed_bytes, bool is_in_tiles) {
  const uint64_t whole = round_up(packed_bytes, os_page_bytes);
  if (!is_in_tiles || layer.weights() == 0) return whole;
  const uint64_t channels = layer.channels_with_bias();
  const uint64_t step = ops::channel_step(layer);
  uint64_t most = 0;
  for (uint64_t begin = 0; begin < channels; begin += step) {
    const uint64_t end = std::min(begin + step, channels);
    const uint64_t bytes = whole * end / channels - whole * begin / channels;
    most = std::max(most, round_up(bytes, os_page_bytes) + os_page_bytes);
  }
  return std::min(most, whole);
}

// What any selection of all there are needs beside nothing else: each candidate of each layer, with
// every layout.
uint64_t least_need_of_all(const Network& network, const Profile& profile) {
  const Instance instance =
      make_instance(network, profile, SelectionScope::whole_network, 0).instance;
  std::vector<uint32_t> chosen(instance.nodes.size());
  uint64_t least = UINT64_MAX;
  const auto look = [&] {
    if (instance.nodes.back().candidates[chosen.back()].layout_out != 0) return;
    std::vector<LayerChoice> choices = choices_of(network, profile, instance, chosen);
    std::vector<uint64_t> workspaces;
    uint64_t largest_piece = 0;
    for (uint32_t i = 0; i < network.layers.size(); ++i) {
      const uint32_t node = NetworkInstance::node_of_layer(i);
      const auto* convolution = std::get_if<network::Convolutional>(&network.layers[i].operation);
      uint64_t packed = network.layers[i].weights() * sizeof(float);
      bool is_in_tiles = true;
      if (convolution != nullptr) {
        const auto& traits =
            profile.convolutions.at(convolution_key(network.layers[i]))[chosen[node]].traits;
        packed = traits.packed_bytes;
        is_in_tiles = traits.name == ops::in_tiles;
      }
      largest_piece = std::max(largest_piece, piece_bytes(network.layers[i], packed, is_in_tiles));
      workspaces.push_back(instance.nodes[node].candidates[chosen[node]].workspace_bytes);
    }
    for (LayerChoice& it : choices) {
      if (it.computed_by == ops::in_tiles) it.computed_by.clear();
    }
    const auto memory = memory_of(network, choices, workspaces);
    least = std::min(least, memory::lay_out(network, memory).plan.total_bytes + largest_piece);
  };
  const std::function<void(size_t)> choose = [&](size_t node) {
    if (node == instance.nodes.size()) return look();
    for (uint32_t c = 0; c < instance.nodes[node].candidates.size(); ++c) {
      chosen[node] = c;
      choose(node + 1);
    }
  };
  choose(0);
  return least;
}

TEST(JointPlan, NoSelectionNeedsLessThanTheLeast) {
  const Network network = parsed(mixture);
  Profile profile = plausible_profile(network, compute_threads);
  for (auto& [key, measured] : profile.convolutions) {
    std::erase_if(measured, [](const MeasuredCandidate& it) {
      return it.traits.name != ops::in_tiles && it.traits.name != "direct";
    });
    ASSERT_GE(measured.size(), 2u) << key;
  }
  Planning it(network, profile);
  const uint64_t least = it.planner->least_bytes();
  EXPECT_EQ(least, least_need_of_all(network, profile));
  EXPECT_LE(it.planner->least_bound_bytes(), least);
  const auto plan = it.planner->plan(least);
  ASSERT_TRUE(plan) << plan.error().message;
  expect_consistent(network, *plan, least);
  EXPECT_TRUE(plan->choices.back().computed_by.empty()) << "the last one comes in tiles";
  EXPECT_FALSE(plan->choices.front().computed_by.empty()) << "the first one whole";
}

class PlanFiles : public testing::Test {
 protected:
  void SetUp() override {
    const uint64_t budget_bytes = it_.budgets(5)[2];
    auto plan = it_.planner->plan(budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    file_ = {.plan = std::move(*plan),
             .threads = 3,
             .machine = "a machine",
             .budget_bytes = budget_bytes};
    text_ = plan_text(file_, it_.network, "net.cfg");
  }

  Result<PlanFile> parse(const std::string& text) const {
    return parse_plan(text, it_.network, "plan.json");
  }
  std::string replaced(const std::string& from, const std::string& to) const {
    const size_t at = text_.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return std::string(text_).replace(at, from.size(), to);
  }

  Planning it_{parsed(small)};
  PlanFile file_;
  std::string text_;
};

TEST_F(PlanFiles, ComeBackAsTheyWereWritten) {
  const auto read = parse(text_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(plan_text(*read, it_.network, "net.cfg"), text_);
  EXPECT_EQ(read->plan.choices, file_.plan.choices);
  EXPECT_EQ(read->plan.memory_bytes(), file_.plan.memory_bytes());
}

TEST_F(PlanFiles, OfAnotherNetworkAreRefused) {
  const auto refused = parse_plan(text_, parsed(std::string(small) + "[softmax]\n"), "plan.json");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "plan.json is the plan of another network, or of another size of its input");
}

TEST_F(PlanFiles, DamageIsRefused) {
  const std::pair<const char*, const char*> damages[] = {
      {"\"schema_version\": 1", "\"schema_version\": 2"},
      {"\"threads\": 3", "\"threads\": 0"},
      {"\"threads\": 3", "\"threads\": 1e99"},
      {"\"layout_in\": \"nchw\"", "\"layout_in\": \"chwn\""},
      {"\"computed_by\"", "\"computedby\""},
      {"\"first_channel\": 0", "\"first_channel\": 1"},
      {"\"end_channel\": 64", "\"end_channel\": 63"},
      {"\"end_channel\": 64", "\"end_channel\": 65"},
      {"\"is_pinned\": ", "\"is_pinned\": 7"},
      {"\"ring_bytes\": ", "\"ring_bytes\": 1"},
      {"\"delay_ns\": ", "\"delay_ns\": -"},
      {"{", "["},
  };
  for (const auto& [from, to] : damages) EXPECT_FALSE(parse(replaced(from, to))) << from << to;
  for (size_t length = 0; length < text_.size(); length += 97) {
    EXPECT_FALSE(parse(text_.substr(0, length))) << length;
  }
}

TEST_F(PlanFiles, OfMoreMemoryThanTheirBudgetAreRefused) {
  PlanFile more = file_;
  more.budget_bytes = more.plan.memory_bytes();
  EXPECT_TRUE(parse(plan_text(more, it_.network, "net.cfg")));
  --more.budget_bytes;
  EXPECT_FALSE(parse(plan_text(more, it_.network, "net.cfg")));
  more = file_;
  for (const uint64_t ring_bytes : {uint64_t{2} << 30, uint64_t{1} << 40}) {
    more.plan.rings.host_bytes = ring_bytes;
    const auto refused = parse(plan_text(more, it_.network, "net.cfg"));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("more than its budget"), std::string::npos);
  }
}

}  // namespace
}  // namespace weightpager::plan
