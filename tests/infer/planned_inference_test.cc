// An inference as a plan says computes what every other one does, whatever was planned, in the
// memory that was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/plan/joint_plan.h"
#include "runtime/plan/planned_operations.h"
#include "tests/infer/small_network.h"
#include "tests/ops/compute_threads.h"
#include "tests/ops/layers.h"
#include "tests/plan/plausible_profile.h"

namespace weightpager::infer {
namespace {

using ops::compute_threads;
using plan::JointPlan;

class PlannedInferenceTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override {
    make();
    profile_ = plan::plausible_profile(network_, compute_threads);
    auto inference = Inference::open(network_, packed_path_, {.threads = compute_threads});
    ASSERT_TRUE(inference) << inference.error().message;
    expected_ = output_of(**inference);
  }

  // Packs the weights for it.
  Result<std::unique_ptr<Inference>> open(const JointPlan& plan, uint32_t batch = 1) {
    const std::string path = directory_.path("small.planned");
    auto operations = plan::PlannedOperations::make(network_, plan.choices, compute_threads);
    if (!operations) return forward_error(std::move(operations));
    network::PackOptions options = plan::packing_for(*operations, weights_path_, path);
    options.overwrite = true;
    const auto packed = network::pack_weights(network_, options);
    if (!packed) return tl::make_unexpected(packed.error());
    return Inference::open(network_, path,
                           {.plan = &plan, .threads = compute_threads, .batch = batch});
  }

  void expect_same(const JointPlan& plan) {
    auto inference = open(plan);
    ASSERT_TRUE(inference) << inference.error().message;
    const std::vector<float> first = output_of(**inference);
    EXPECT_LT(ops::relative_error(expected_, first), 1e-4);
    EXPECT_EQ(output_of(**inference), first);
    EXPECT_LE((*inference)->window_bytes(), plan.window_bytes());
    EXPECT_EQ((*inference)->activation_bytes(), plan.arena_bytes);
  }

  // Any candidates, layers as one piece each or in the smallest tiles, some of them pinned.
  JointPlan random_plan(std::mt19937& random) {
    const plan::Instance instance =
        plan::make_instance(network_, profile_, plan::SelectionScope::whole_network, 0).instance;
    std::vector<uint32_t> candidates;
    for (const plan::Node& node : instance.nodes) {
      candidates.push_back(static_cast<uint32_t>(random() % node.candidates.size()));
    }
    JointPlan plan{.choices = plan::choices_of(network_, profile_, instance, candidates)};
    plan.choices[11] = {};  // what yolo takes in, in tiles
    plan.choices[12] = {};
    for (plan::LayerChoice& it : plan.choices) {
      if (it.computed_by == ops::in_tiles) it.computed_by.clear();
    }
    const auto operations = plan::PlannedOperations::make(network_, plan.choices, compute_threads);
    EXPECT_TRUE(operations) << operations.error().message;
    plan.arena_bytes = memory::lay_out(network_, operations->memory()).plan.total_bytes;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const auto channels = static_cast<uint32_t>(network_.layers[i].channels_with_bias());
      const uint32_t step = ops::channel_step(network_.layers[i]);
      const bool is_whole = !plan.choices[i].has_plain_weights() || channels <= step;
      uint32_t channel = 0;
      do {
        const uint32_t end = is_whole ? channels : std::min(channels, channel + step);
        plan.pieces.push_back({i, channel, end});
        plan.kernel_ns.push_back(1000);
        plan.is_pinned.push_back(random() % 2 == 0);
        channel = end;
      } while (channel < channels);
    }
    plan.rings.host_bytes = 16 * MiB;
    plan.pinned_bytes = 16 * MiB;
    return plan;
  }

  plan::Profile profile_;
  std::vector<float> expected_;
};

TEST_F(PlannedInferenceTest, ComputesTheSameWhateverIsPlanned) {
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    expect_same(random_plan(random));
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST_F(PlannedInferenceTest, ComputesTheSameAtEveryBudget) {
  auto planner = plan::JointPlanner::make(network_, profile_, {.threads = compute_threads});
  ASSERT_TRUE(planner) << planner.error().message;
  const uint64_t least_bytes = planner->least_bytes();
  for (int i = 0; i <= 4; ++i) {
    const uint64_t budget_bytes = least_bytes + i * (planner->most_bytes() - least_bytes) / 4;
    const auto plan = planner->plan(budget_bytes);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_same(*plan);
    EXPECT_LE(plan->memory_bytes(), budget_bytes);
  }
}

TEST_F(PlannedInferenceTest, TakesSeveralImagesAtOnce) {
  std::mt19937 random(5);
  const JointPlan plan = random_plan(random);
  auto inference = open(plan, 2);
  ASSERT_TRUE(inference) << inference.error().message;
  const std::span<const float> inputs[] = {input_, input_};
  const Status ran = (*inference)->run(inputs);
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(last_output(**inference, 0), last_output(**inference, 1));
  EXPECT_LT(ops::relative_error(expected_, last_output(**inference, 0)), 1e-4);
}

TEST_F(PlannedInferenceTest, OtherWeightsThanItWasPlannedForAreRefused) {
  std::mt19937 random(1);
  JointPlan plan = random_plan(random);
  ASSERT_TRUE(open(plan));
  for (const std::string& path : {weights_path_, packed_path_}) {
    const auto refused =
        Inference::open(network_, path, {.plan = &plan, .threads = compute_threads});
    ASSERT_FALSE(refused) << path;
    EXPECT_NE(refused.error().hint.find("--plan"), std::string::npos) << refused.error().hint;
  }
}

TEST_F(PlannedInferenceTest, AMadeUpCandidateIsRefused) {
  std::mt19937 random(1);
  JointPlan plan = random_plan(random);
  plan.choices[0].computed_by = "magic";
  const auto refused = open(plan);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("does not compute it by magic"), std::string::npos);
}

// A plan comes out of a file that anybody may have written.
TEST_F(PlannedInferenceTest, ARingOrPinsThatAreNotOfTheseWeightsAreRefused) {
  std::mt19937 random(1);
  JointPlan plan = random_plan(random);
  auto inference = open(plan);
  ASSERT_TRUE(inference) << inference.error().message;
  uint64_t pinned_bytes = 0;
  for (const pipeline::UnitBytes& it : (*inference)->window().units) {
    if (it.is_pinned) pinned_bytes += it.length_bytes;
  }
  const auto expect_refused = [&](const char* figure) {
    const auto refused = open(plan);
    ASSERT_FALSE(refused) << figure;
    EXPECT_NE(refused.error().message.find(figure), std::string::npos) << refused.error().message;
  };
  for (const uint64_t ring_bytes : {uint64_t{0}, uint64_t{os_page_bytes}, uint64_t{2} << 30,
                                    uint64_t{1} << 40, uint64_t{1} << 53}) {
    plan.rings.host_bytes = ring_bytes;
    expect_refused("ring_bytes");
  }
  plan.rings.host_bytes = 16 * MiB;
  plan.pinned_bytes = pinned_bytes - 1;
  expect_refused("pinned_bytes");
  plan.pinned_bytes = pinned_bytes;
  EXPECT_TRUE(open(plan));
}

// Activations of a batch that no machine has room for: an error before anything is taken.
TEST_F(PlannedInferenceTest, MoreMemoryThanThereIsIsRefused) {
  const InferenceOptions plain = {.threads = compute_threads, .batch = UINT32_MAX};
  const auto refused = Inference::open(network_, packed_path_, plain);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("there is room for"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(refused.error().error_number, ENOMEM);
}

}  // namespace
}  // namespace weightpager::infer
