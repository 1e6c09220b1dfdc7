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

}  // namespace weightpager::plan
