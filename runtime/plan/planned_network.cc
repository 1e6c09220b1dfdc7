#include "runtime/plan/planned_network.h"

#include <algorithm>
#include <new>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/memory_room.h"
#include "runtime/plan/aligned_floats.h"

namespace weightpager::plan {

using network::Network;
using network::Shape;

PlannedNetwork::PlannedNetwork(const Network& network, std::span<const LayerChoice> choices,
                               PlannedOperations operations, memory::Activations activations)
    : network_(&network),
      choices_(choices.begin(), choices.end()),
      operations_(std::move(operations)),
      activations_(std::move(activations)) {}

Result<PlannedNetwork> PlannedNetwork::make(const Network& network,
                                            std::span<const LayerChoice> choices, int threads) {
  try {
    auto operations = PlannedOperations::make(network, choices, threads);
    if (!operations) return forward_error(std::move(operations));
    const memory::ActivationLayout layout = memory::lay_out(network, operations->memory());
    Status fits = check_room({.what = "a pass over the network: activations and workspace",
                              .bytes = layout.plan.total_bytes},
                             "make pictures smaller (`width=` and `height=` in the .cfg)");
    if (!fits) return forward_error(std::move(fits));
    auto activations = memory::Activations::make(network, layout);
    if (!activations) return forward_error(std::move(activations));
    return PlannedNetwork(network, choices, std::move(*operations), std::move(*activations));
  } catch (const NoRoom& it) {
    return tl::make_unexpected(it.error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory for a network's activations and workspace",
                "leave more memory, or plan with a smaller --budget");
  }
}

Result<Pass> PlannedNetwork::run(std::span<const float> input, const WeightsOfLayers& packed,
                                 const std::function<void(uint32_t)>& after) {
  WP_ASSERT(input.size() == network_->input.elements());
  std::copy(input.begin(), input.end(), activations_.input());
  Pass pass(network_->layers.size());
  for (uint32_t layer = 0; layer < pass.size(); ++layer) {
    const Status ran = operations_.run(layer, operations_.all_channels(layer), packed(layer),
                                       {activations_.inputs(layer), activations_.changed(layer),
                                        activations_.output(layer), activations_.workspace(layer)},
                                       pass[layer]);
    if (!ran) return tl::make_unexpected(ran.error());
    if (after) after(layer);
  }
  return pass;
}

Result<std::vector<float>> PlannedNetwork::output(uint32_t layer) const {
  const Shape& shape = network_->layers[layer].output;
  const ops::Layout layout = choices_[layer].layout_out;
  const float* const given = activations_.output(layer);
  if (layout == ops::Layout::nchw) return std::vector<float>(given, given + shape.elements());
  auto change = ops::LayoutChange::make(shape, layout, ops::Layout::nchw);
  if (!change) return forward_error(std::move(change));
  const AlignedFloats plain(shape.size_bytes());
  if (Status ran = change->run(given, plain.data()); !ran) return forward_error(std::move(ran));
  return std::vector<float>(plain.data(), plain.data() + shape.elements());
}

uint64_t PlannedNetwork::workspace_bytes() const {
  uint64_t most = 0;
  for (size_t i = 0; i < network_->layers.size(); ++i) {
    if (!std::holds_alternative<network::Convolutional>(network_->layers[i].operation)) continue;
    most = std::max(most, operations_.memory()[i].workspace_bytes);
  }
  return most;
}

Result<PackedWeights> PackedWeights::make(const Network& network, PlannedOperations& operations,
                                          const WeightsOfLayers& weights) {
  try {
    PackedWeights made;
    for (uint32_t layer = 0; layer < network.layers.size(); ++layer) {
      const uint64_t bytes = operations.weight_forms()[layer].size_bytes;
      const AlignedFloats& packed = made.packed_.emplace_back(bytes);
      std::vector<float>& biases = made.biases_.emplace_back();
      if (bytes == 0) continue;
      const ops::TileWeights given = weights(layer);
      const uint64_t channels = network.layers[layer].channels_with_bias();
      biases.assign(given.biases, given.biases + channels);
      made.size_bytes_ += bytes + channels * sizeof(float);
      if (Status done = operations.pack(layer, given.weights, packed.data()); !done) {
        return forward_error(std::move(done));
      }
    }
    return made;
  } catch (const NoRoom& it) {
    return tl::make_unexpected(it.error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory for a network's weights",
                "leave more memory, or plan with a smaller --budget");
  }
}

}  // namespace weightpager::plan
