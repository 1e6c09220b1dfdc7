// A network computes the same, whichever candidates and layouts are selected, and takes the memory
// that the selection says.
#include "runtime/plan/planned_network.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "runtime/network/parser.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/plan/select.h"
#include "tests/ops/compute_threads.h"
#include "tests/ops/layers.h"
#include "tests/plan/random_instance.h"

namespace weightpager::plan {
namespace {

using network::Network;
using ops::compute_threads;

constexpr const char* description = R"(
[net]
height=24
width=20
channels=3
[convolutional]
filters=32
size=3
stride=1
pad=1
activation=mish
[maxpool]
size=2
stride=2
[convolutional]
filters=32
size=3
stride=1
pad=1
activation=leaky
[convolutional]
filters=32
size=1
stride=1
activation=logistic
[shortcut]
from=-3
activation=relu
[convolutional]
filters=24
size=3
stride=2
pad=1
activation=relu
[dropout]
[upsample]
stride=2
[route]
layers=-1,-4
[convolutional]
filters=48
size=3
stride=1
pad=1
groups=2
activation=linear
[route]
layers=-1
groups=2
group_id=1
[convolutional]
filters=20
size=1
stride=1
activation=swish
[route]
layers=-1,-3
[avgpool]
[connected]
output=10
activation=linear
[softmax]
)";

class PlannedNetworks : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = network::parse_network(description, "net.cfg");
    ASSERT_TRUE(parsed) << parsed.error().message;
    omp_set_num_threads(compute_threads);
    network_ = std::move(*parsed);
    for (const network::Layer& layer : network_.layers) {
      weights_.push_back(layer.weights() > 0 ? std::make_unique<ops::Weights>(layer) : nullptr);
    }
    input_ = ops::naive::random_values(network_.input.elements(), 5);
    profile_ = made_up_profile();
    instance_ = make_instance(network_, profile_, SelectionScope::whole_network, 1e9).instance;
    run_plainly();
  }

  // All candidates that there are, at random times.
  Profile made_up_profile() const {
    RandomInstances random(3);
    Profile profile;
    profile.changes[picture_key(network_.input)] = {};
    for (const network::Layer& layer : network_.layers) {
      profile.changes[picture_key(layer.output)] = {};
      profile.others[other_key(layer)] = {};
      if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
      auto& measured = profile.convolutions[convolution_key(layer)];
      measured.clear();
      for (const auto& it : ops::convolution_candidates(layer, compute_threads)) {
        measured.push_back({it->traits(), static_cast<double>(random.up_to(1000))});
      }
    }
    return profile;
  }

  ops::TileWeights weights_of(uint32_t layer) const {
    return {weights_[layer]->biases.data(), weights_[layer]->first()};
  }

  // Every layer as `infer` computes it.
  void run_plainly() {
    auto operations = ops::CpuOperations::make(network_, compute_threads);
    ASSERT_TRUE(operations) << operations.error().message;
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const network::Layer& layer = network_.layers[i];
      std::vector<const float*> inputs;
      for (const uint32_t source : layer.inputs) {
        inputs.push_back(source == network::network_input ? input_.data()
                                                          : expected_[source].data());
      }
      expected_.emplace_back(layer.output.elements());
      const auto weights = weights_[i] ? weights_of(i) : ops::TileWeights{};
      const Status ran =
          operations->run(i, operations->all_channels(i), weights, inputs, expected_.back().data());
      ASSERT_TRUE(ran) << ran.error().message;
    }
  }

  void expect_same(const Selection& selection) {
    auto planned = PlannedNetwork::make(
        network_, choices_of(network_, profile_, instance_, selection.candidates), compute_threads);
    ASSERT_TRUE(planned) << planned.error().message;
    const auto packed = PackedWeights::make(network_, planned->operations(),
                                            [&](uint32_t layer) { return weights_of(layer); });
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(packed->size_bytes(), selection.held_bytes);
    EXPECT_EQ(planned->workspace_bytes(), selection.workspace_bytes);
    for (int run = 0; run < 2; ++run) {
      const auto pass = planned->run(
          input_, [&](uint32_t layer) { return packed->of(layer); },
          [&](uint32_t layer) { expect_same_output(*planned, layer); });
      ASSERT_TRUE(pass) << pass.error().message;
      EXPECT_GT(pass->front().convolutions_ns, 0);
    }
  }

  void expect_same_output(const PlannedNetwork& planned, uint32_t layer) const {
    const auto output = planned.output(layer);
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_LT(ops::relative_error(expected_[layer], *output), 1e-4)
        << "layer " << layer << ", " << network::section_name(network_.layers[layer].operation);
  }

  Network network_;
  std::vector<std::unique_ptr<ops::Weights>> weights_;
  ops::naive::Values input_;
  std::vector<ops::naive::Values> expected_;
  Profile profile_;
  Instance instance_;
};

TEST_F(PlannedNetworks, ComputeTheSameAllAlongTheFront) {
  const auto front = pareto_front(instance_);
  ASSERT_TRUE(front) << front.error().message;
  const size_t step = std::max<size_t>(1, front->size() / 4);
  for (size_t i = 0; i < front->size(); i += step) expect_same((*front)[i]);
  expect_same(front->back());
}

TEST_F(PlannedNetworks, ComputeTheSameWhateverIsSelected) {
  RandomInstances random(7);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint32_t> candidates;
    for (const Node& node : instance_.nodes) {
      candidates.push_back(static_cast<uint32_t>(random.up_to(node.candidates.size() - 1)));
    }
    expect_same(evaluate(instance_, candidates));
    if (HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace weightpager::plan
