#include "runtime/plan/planned_network.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/aligned_floats.h"

namespace weightpager::plan {

using network::Layer;
using network::Network;
using network::Shape;

class PlannedNetwork::Implementation {
 public:
  Implementation(const Network& network, std::span<const LayerChoice> choices,
                 PlannedOperations operations)
      : network_(network),
        choices_(choices.begin(), choices.end()),
        operations_(std::move(operations)) {}

  Status prepare(const LayerWeights& weights) {
    outputs_.emplace_back(network_.input.size_bytes());
    uint64_t workspace_bytes = 0;
    for (uint32_t number = 0; number < network_.layers.size(); ++number) {
      const Layer& layer = network_.layers[number];
      const memory::LayerMemory& memory = operations_.memory()[number];
      std::vector<AlignedFloats>& copies = changed_.emplace_back();
      for (const uint64_t bytes : memory.changed_bytes) copies.emplace_back(bytes);
      outputs_.emplace_back(memory.output_bytes);
      workspace_bytes = std::max(workspace_bytes, memory.workspace_bytes);
      if (std::holds_alternative<network::Convolutional>(layer.operation)) {
        planned_workspace_bytes_ = std::max(planned_workspace_bytes_, memory.workspace_bytes);
      }
      if (Status done = take_weights(number, weights); !done) return done;
    }
    workspace_.emplace(workspace_bytes);
    return {};
  }

  Result<RunTimes> run(const float* input) {
    std::copy_n(input, network_.input.elements(), outputs_[0].data());
    RunTimes times;
    for (uint32_t number = 0; number < network_.layers.size(); ++number) {
      std::vector<const float*> inputs;
      for (const uint32_t source : network_.layers[number].inputs) {
        inputs.push_back(outputs_[node_of(source)].data());
      }
      std::vector<float*> changed;
      for (const AlignedFloats& it : changed_[number]) changed.push_back(it.data());
      const Status ran = operations_.run(
          number, operations_.all_channels(number),
          {biases_[number].data(), packed_[number].data()},
          {inputs, changed, outputs_[node_of(number)].data(), workspace_->data()}, times);
      if (!ran) return tl::make_unexpected(ran.error());
    }
    return times;
  }

  Result<std::vector<float>> output(uint32_t layer) const {
    const Shape& shape = network_.layers[layer].output;
    const ops::Layout layout = choices_[layer].layout_out;
    const AlignedFloats& given = outputs_[node_of(layer)];
    if (layout == ops::Layout::nchw) {
      return std::vector<float>(given.data(), given.data() + shape.elements());
    }
    auto change = ops::LayoutChange::make(shape, layout, ops::Layout::nchw);
    if (!change) return forward_error(std::move(change));
    const AlignedFloats plain(shape.size_bytes());
    if (Status ran = change->run(given.data(), plain.data()); !ran) {
      return forward_error(std::move(ran));
    }
    return std::vector<float>(plain.data(), plain.data() + shape.elements());
  }

  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t workspace_bytes() const { return planned_workspace_bytes_; }

 private:
  static uint32_t node_of(uint32_t source) {
    return source == network::network_input ? 0 : NetworkInstance::node_of_layer(source);
  }

  Status take_weights(uint32_t number, const LayerWeights& weights) {
    const uint64_t bytes = operations_.weight_forms()[number].size_bytes;
    packed_.emplace_back(bytes);
    biases_.emplace_back();
    if (bytes == 0) return {};
    const ops::TileWeights given = weights(number);
    const uint64_t channels = network_.layers[number].channels_with_bias();
    biases_.back().assign(given.biases, given.biases + channels);
    weight_bytes_ += bytes + channels * sizeof(float);
    return operations_.pack(number, given.weights, packed_.back().data());
  }

  const Network& network_;
  const std::vector<LayerChoice> choices_;
  PlannedOperations operations_;
  // By node: the input, then layers.
  std::vector<AlignedFloats> outputs_;
  // By layer.
  std::vector<std::vector<AlignedFloats>> changed_;
  std::vector<AlignedFloats> packed_;
  std::vector<std::vector<float>> biases_;
  uint64_t weight_bytes_ = 0;
  uint64_t planned_workspace_bytes_ = 0;
  std::optional<AlignedFloats> workspace_;
};

PlannedNetwork::PlannedNetwork(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
PlannedNetwork::PlannedNetwork(PlannedNetwork&&) noexcept = default;
PlannedNetwork::~PlannedNetwork() = default;

Result<PlannedNetwork> PlannedNetwork::make(const Network& network,
                                            std::span<const LayerChoice> choices,
                                            const LayerWeights& weights, int threads) {
  try {
    auto operations = PlannedOperations::make(network, choices, threads);
    if (!operations) return forward_error(std::move(operations));
    auto made = std::make_unique<Implementation>(network, choices, std::move(*operations));
    if (Status done = made->prepare(weights); !done) return forward_error(std::move(done));
    return PlannedNetwork(std::move(made));
  } catch (const std::bad_alloc&) {
    return fail("out of memory for a network's weights and activations",
                "leave more memory, or plan with a smaller --budget");
  }
}

Result<RunTimes> PlannedNetwork::run(const float* input) { return implementation_->run(input); }

Result<std::vector<float>> PlannedNetwork::output(uint32_t layer) const {
  return implementation_->output(layer);
}

uint64_t PlannedNetwork::weight_bytes() const { return implementation_->weight_bytes(); }
uint64_t PlannedNetwork::workspace_bytes() const { return implementation_->workspace_bytes(); }

}  // namespace weightpager::plan
