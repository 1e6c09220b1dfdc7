#include "runtime/plan/layer_choice.h"

namespace weightpager::plan {

std::vector<LayerChoice> choices_of(const network::Network& network, const Profile& profile,
                                    const Instance& instance,
                                    const std::vector<uint32_t>& candidates) {
  std::vector<LayerChoice> choices;
  for (uint32_t i = 0; i < network.layers.size(); ++i) {
    const network::Layer& layer = network.layers[i];
    const uint32_t node = NetworkInstance::node_of_layer(i);
    const Candidate& chosen = instance.nodes[node].candidates[candidates[node]];
    LayerChoice choice{.layout_in = static_cast<ops::Layout>(chosen.layout_in),
                       .layout_out = static_cast<ops::Layout>(chosen.layout_out)};
    if (std::holds_alternative<network::Convolutional>(layer.operation)) {
      const auto& measured = profile.convolutions.at(convolution_key(layer));
      choice.computed_by = measured[candidates[node]].traits.name;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

ops::Layout layout_given(std::span<const LayerChoice> choices, uint32_t source) {
  return source == network::network_input ? ops::Layout::nchw : choices[source].layout_out;
}

std::vector<memory::LayerMemory> memory_of(const network::Network& network,
                                           std::span<const LayerChoice> choices,
                                           std::span<const uint64_t> workspace_bytes) {
  std::vector<memory::LayerMemory> memory;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const network::Layer& layer = network.layers[i];
    memory::LayerMemory& it = memory.emplace_back();
    it.output_bytes = ops::picture_bytes(layer.output, choices[i].layout_out);
    it.workspace_bytes = workspace_bytes[i];
    for (const uint32_t source : layer.inputs) {
      const ops::Layout given = layout_given(choices, source);
      const ops::Layout wanted = choices[i].layout_in;
      const auto& shape = network.shape_of(source);
      it.changed_bytes.push_back(given == wanted ? 0 : ops::picture_bytes(shape, wanted));
    }
  }
  return memory;
}

}  // namespace weightpager::plan
