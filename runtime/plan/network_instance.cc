#include "runtime/plan/network_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;
using network::Shape;
using ops::Layout;

uint32_t number(Layout layout) { return static_cast<uint32_t>(layout); }

// Inputs in blocks can be put behind each other only where their blocks are full.
bool fills_blocks(const Network& network, const Layer& layer, Layout layout) {
  const uint32_t block = layout == Layout::nChw16c ? 16 : layout == Layout::nChw8c ? 8 : 1;
  return std::all_of(layer.inputs.begin(), layer.inputs.end(), [&](uint32_t source) {
    return network.shape_of(source).channels % block == 0;
  });
}

}  // namespace

bool keeps_layout(const Network& network, const Layer& layer, Layout layout) {
  if (layout == Layout::nchw) return true;
  if (const auto* it = std::get_if<network::Route>(&layer.operation)) {
    return it->groups == 1 && fills_blocks(network, layer, layout);
  }
  if (std::holds_alternative<network::Shortcut>(layer.operation)) {
    return network.shape_of(layer.inputs[0]) == layer.output &&
           network.shape_of(layer.inputs[1]) == layer.output;
  }
  return std::holds_alternative<network::MaxPool>(layer.operation) ||
         std::holds_alternative<network::Upsample>(layer.operation) ||
         std::holds_alternative<network::Dropout>(layer.operation);
}

namespace {

class Maker {
 public:
  Maker(const Network& network, const Profile& profile, SelectionScope strategy,
        double read_bytes_per_s)
      : network_(network),
        profile_(profile),
        strategy_(strategy),
        read_bytes_per_s_(read_bytes_per_s) {
    find_layouts();
  }

  NetworkInstance run() {
    made_.instance.layouts = layout_count;
    add_node({Candidate{}}, {""});
    for (const Layer& layer : network_.layers) add_layer(layer);
    for (uint32_t i = 0; i < network_.layers.size(); ++i) add_edges(i);
    return std::move(made_);
  }

 private:
  // The layouts of some convolution, and Darknet's. In another layout the other layers gain
  // nothing, and oneDNN's code for it may not be worth running (max-pools in blocks of 16 without
  // AVX-512).
  void find_layouts() {
    layouts_ = {Layout::nchw};
    for (const Layer& layer : network_.layers) {
      if (!std::holds_alternative<network::Convolutional>(layer.operation)) continue;
      for (const MeasuredCandidate& it : measured(layer)) {
        layouts_.insert(it.traits.layout_in);
        layouts_.insert(it.traits.layout_out);
      }
    }
  }

  const std::vector<MeasuredCandidate>& measured(const Layer& layer) const {
    const auto found = profile_.convolutions.find(convolution_key(layer));
    WP_ASSERT(found != profile_.convolutions.end());
    return found->second;
  }

  void add_node(std::vector<Candidate> candidates, std::vector<std::string> names) {
    const size_t node = made_.instance.nodes.size();
    const std::string name = node == 0 ? "the input" : network::describe_layer(network_, node - 1);
    made_.instance.nodes.push_back({std::move(candidates), name});
    made_.names.push_back(std::move(names));
  }

  void add_layer(const Layer& layer) {
    if (std::holds_alternative<network::Convolutional>(layer.operation)) return add_choices(layer);
    if (!keeps_layout(network_, layer, Layout::nhwc)) {
      return add_node({with_weights({}, layer.folded_bytes(), 0)}, {""});
    }
    add_layouts(layer);
  }

  void add_choices(const Layer& layer) {
    std::vector<Candidate> candidates;
    std::vector<std::string> names;
    for (const MeasuredCandidate& it : measured(layer)) {
      const CandidateTraits& traits = it.traits;
      candidates.push_back(with_weights({.time_ns = it.time_ns,
                                         .layout_in = number(traits.layout_in),
                                         .layout_out = number(traits.layout_out)},
                                        traits.packed_bytes + bias_bytes(layer),
                                        traits.workspace_bytes));
      const std::string in = ops::layout_name(traits.layout_in);
      const std::string out = ops::layout_name(traits.layout_out);
      names.push_back(fmt::format("{} {}", traits.name, in == out ? in : in + "-" + out));
    }
    add_node(std::move(candidates), std::move(names));
  }

  void add_layouts(const Layer& layer) {
    const auto found = profile_.others.find(other_key(layer));
    WP_ASSERT(found != profile_.others.end());
    const LayoutTimes& times = found->second;
    std::vector<Candidate> candidates;
    std::vector<std::string> names;
    for (const Layout layout : layouts_) {
      if (!keeps_layout(network_, layer, layout)) continue;
      candidates.push_back({.time_ns = times[number(layout)] - fastest_ns(times),
                            .layout_in = number(layout),
                            .layout_out = number(layout)});
      names.emplace_back(ops::layout_name(layout));
    }
    add_node(std::move(candidates), std::move(names));
  }

  static uint64_t bias_bytes(const Layer& layer) {
    return layer.channels_with_bias() * sizeof(float);
  }

  Candidate with_weights(Candidate candidate, uint64_t weight_bytes,
                         uint64_t workspace_bytes) const {
    if (strategy_ == SelectionScope::whole_network) {
      candidate.held_bytes = weight_bytes;
      candidate.workspace_bytes = workspace_bytes;
      return candidate;
    }
    candidate.workspace_bytes = weight_bytes + workspace_bytes;
    candidate.time_ns += static_cast<double>(weight_bytes) / read_bytes_per_s_ * 1e9;
    return candidate;
  }

  void add_edges(uint32_t layer) {
    // A route may take a layer's output twice; it is brought into the layout only once.
    const std::vector<uint32_t>& inputs = network_.layers[layer].inputs;
    for (const uint32_t from : std::set<uint32_t>(inputs.begin(), inputs.end())) {
      const bool is_input = from == network::network_input;
      const auto found = profile_.changes.find(picture_key(network_.shape_of(from)));
      WP_ASSERT(found != profile_.changes.end());
      Edge edge{is_input ? 0 : NetworkInstance::node_of_layer(from),
                NetworkInstance::node_of_layer(layer),
                {}};
      for (const auto& row : found->second) {
        edge.change_ns.insert(edge.change_ns.end(), row.begin(), row.end());
      }
      made_.instance.edges.push_back(std::move(edge));
    }
  }

  const Network& network_;
  const Profile& profile_;
  const SelectionScope strategy_;
  const double read_bytes_per_s_;
  std::set<Layout> layouts_;  // that some convolution has, and Darknet's
  NetworkInstance made_;
};

}  // namespace

NetworkInstance make_instance(const Network& network, const Profile& profile,
                              SelectionScope strategy, double read_bytes_per_s) {
  return Maker(network, profile, strategy, read_bytes_per_s).run();
}

namespace {

std::string primitive_kind(const std::string& candidate_name) {
  const std::string name = candidate_name.substr(0, candidate_name.find(' '));
  if (name.find("wino") != std::string::npos) return "winograd";
  if (name.find(":gemm:") != std::string::npos) return "gemm";
  if (name.starts_with("jit") || name.starts_with("brgconv")) return "jit";
  return name;
}

}  // namespace

PrimitiveKinds primitive_kinds(const Network& network, const NetworkInstance& instance) {
  PrimitiveKinds kinds;
  for (const auto& names : instance.names) kinds.emplace_back(names.size());
  for (uint32_t i = 0; i < network.layers.size(); ++i) {
    if (!std::holds_alternative<network::Convolutional>(network.layers[i].operation)) continue;
    const uint32_t node = NetworkInstance::node_of_layer(i);
    std::transform(instance.names[node].begin(), instance.names[node].end(), kinds[node].begin(),
                   primitive_kind);
  }
  return kinds;
}

}  // namespace weightpager::plan
