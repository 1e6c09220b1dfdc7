#include "runtime/plan/joint_network.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "pager/base/units.h"
#include "runtime/memory/activations.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/ops/cpu/convolution_candidate.h"
#include "runtime/pipeline/tiles.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;

// The time between two kernels: the executor hands the next piece to the computing thread (`infer
// --trace`, 2026-11-22).
constexpr uint64_t start_ns_per_piece = 1'000;

uint32_t node_of(uint32_t layer) { return NetworkInstance::node_of_layer(layer); }

bool is_convolution(const Layer& layer) {
  return std::holds_alternative<network::Convolutional>(layer.operation);
}

// In Darknet's layouts; no tensor is smaller in another one.
std::vector<uint64_t> live_by_layer(const Network& network) {
  const memory::ActivationLayout layout = memory::lay_out(network);
  std::vector<uint64_t> live(network.layers.size());
  for (const memory::TensorUsage& tensor : layout.tensors) {
    const uint32_t end =
        std::min<uint32_t>(tensor.last_operation + 1, static_cast<uint32_t>(live.size()));
    for (uint32_t i = tensor.first_operation; i < end; ++i) live[i] += tensor.size_bytes;
  }
  return live;
}

}  // namespace

JointNetwork::JointNetwork(const Network& network, const Profile& profile,
                           const JointSettings& settings)
    : network_(network),
      profile_(profile),
      settings_(settings),
      live_bytes_(live_by_layer(network)),
      instance_(make_instance(network, profile, SelectionScope::whole_network, 0).instance) {
  complete_instance();
}

// Times are of whole layers. Weights are in pages and without biases, which stay in memory.
// Workspace is what the arena must hold while the layer runs.
void JointNetwork::complete_instance() {
  own_workspace_bytes_.resize(instance_.nodes.size());
  own_workspace_bytes_[0].resize(1);
  for (uint32_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    const std::string key = other_key(layer);
    const double others_ns = key.empty() ? 0 : fastest_ns(profile_.others.at(key));
    const bool is_last = i + 1 == network_.layers.size();
    std::vector<Candidate>& candidates = instance_.nodes[node_of(i)].candidates;
    for (uint32_t c = 0; c < candidates.size(); ++c) {
      Candidate& it = candidates[c];
      if (!brings_activation(node_of(i), c)) it.time_ns += others_ns;
      // A network's output is in Darknet's layout.
      if (is_last && it.layout_out != 0) it.time_ns += forbidden_ns;
      uint64_t weight_bytes = layer.weights() * sizeof(float);
      if (is_convolution(layer)) {
        weight_bytes = profile_.convolutions.at(convolution_key(layer))[c].traits.packed_bytes;
      } else if (layer.weights() > 0) {
        it.workspace_bytes =
            ops::Convolution(layer, settings_.threads).scratch_floats() * sizeof(float);
      }
      it.held_bytes = round_up(weight_bytes, os_page_bytes);
      own_workspace_bytes_[node_of(i)].push_back(it.workspace_bytes);
      it.workspace_bytes += live_bytes_[i];
    }
  }
  use_whole_nanoseconds();
  find_smallest_pieces();
}

void JointNetwork::find_smallest_pieces() {
  for (uint32_t node = 0; node < instance_.nodes.size(); ++node) {
    std::vector<uint64_t>& bytes = smallest_piece_bytes_.emplace_back();
    for (uint32_t c = 0; c < instance_.nodes[node].candidates.size(); ++c) {
      bytes.push_back(whole_bytes(node, c));
      if (node == 0 || bytes.back() > 0) continue;
      const pipeline::TileableLayer layer = tileable_layer(node - 1, c);
      for (const pipeline::Tile& it :
           pipeline::tiles_in_pages({&layer, 1}, {.tile_bytes_max = os_page_bytes})) {
        bytes.back() = std::max(bytes.back(), it.costs.size_bytes);
      }
    }
  }
}

// Whether a convolution's candidate also applies the activation function, in no more time.
bool JointNetwork::brings_activation(uint32_t node, uint32_t candidate) const {
  const Layer& layer = layer_of(node);
  return is_convolution(layer) && ops::applies_activation(layer) &&
         is_run_by_infer(node, candidate);
}

// Pieces have whole nanoseconds, rounded down. So a selection's time is the sum of its pieces'
// times, and a bound that is computed from the selection is no larger than that.
void JointNetwork::use_whole_nanoseconds() {
  for (Node& node : instance_.nodes) {
    for (Candidate& it : node.candidates) it.time_ns = std::floor(it.time_ns);
  }
  for (Edge& edge : instance_.edges) {
    for (double& change_ns : edge.change_ns) change_ns = std::floor(change_ns);
  }
}

Instance JointNetwork::without_activations(SelectionScope strategy) const {
  Instance it = instance_;
  for (uint32_t node = 0; node < it.nodes.size(); ++node) {
    for (uint32_t c = 0; c < it.nodes[node].candidates.size(); ++c) {
      Candidate& candidate = it.nodes[node].candidates[c];
      candidate.workspace_bytes = own_workspace_bytes_[node][c];
      if (strategy == SelectionScope::whole_network) continue;
      candidate.time_ns += settings_.read_ns(static_cast<double>(candidate.held_bytes));
      candidate.workspace_bytes += candidate.held_bytes;
      candidate.held_bytes = 0;
    }
  }
  return it;
}

JointOption JointNetwork::option_of(std::vector<uint32_t> candidates) const {
  const Selection selection = evaluate(instance_, candidates);
  const double starts_ns = static_cast<double>(network_.layers.size() * start_ns_per_piece);
  JointOption option{std::move(candidates), selection.time_ns + starts_ns, selection.held_bytes};
  for (uint32_t node = 0; node < instance_.nodes.size(); ++node) {
    option.largest_whole_bytes =
        std::max(option.largest_whole_bytes, whole_bytes(node, option.candidates[node]));
  }
  return option;
}

std::vector<uint32_t> JointNetwork::in_tiles_everywhere() const {
  std::vector<uint32_t> candidates(instance_.nodes.size());
  for (uint32_t node = 1; node < candidates.size(); ++node) {
    for (uint32_t c = 0; c < instance_.nodes[node].candidates.size(); ++c) {
      const Candidate& it = instance_.nodes[node].candidates[c];
      const bool is_plain = it.layout_in == 0 && it.layout_out == 0;
      if (is_plain && is_run_by_infer(node, c)) candidates[node] = c;
    }
  }
  return candidates;
}

const Candidate& JointNetwork::chosen(const std::vector<uint32_t>& candidates,
                                      uint32_t layer) const {
  return instance_.nodes[node_of(layer)].candidates[candidates[node_of(layer)]];
}

std::vector<LayerChoice> JointNetwork::choices(const std::vector<uint32_t>& candidates) const {
  auto choices = choices_of(network_, profile_, instance_, candidates);
  for (LayerChoice& it : choices) {
    if (it.computed_by == ops::in_tiles) it.computed_by.clear();
  }
  return choices;
}

pipeline::TileableLayer JointNetwork::tileable_layer(uint32_t layer, uint32_t candidate) const {
  const Candidate& it = instance_.nodes[node_of(layer)].candidates[candidate];
  const auto bytes = static_cast<double>(it.held_bytes);
  const auto channels = static_cast<uint32_t>(network_.layers[layer].channels_with_bias());
  return {{.size_bytes = it.held_bytes,
           .read_ns = static_cast<uint64_t>(settings_.read_ns(bytes)),
           .kernel_ns = static_cast<uint64_t>(it.time_ns) + start_ns_per_piece},
          is_in_tiles(node_of(layer), candidate) ? std::max(channels, 1u) : 1,
          ops::channel_step(network_.layers[layer])};
}

std::vector<pipeline::TileableLayer> JointNetwork::tileable(
    const std::vector<uint32_t>& candidates) const {
  std::vector<pipeline::TileableLayer> layers;
  for (uint32_t i = 0; i < network_.layers.size(); ++i) {
    layers.push_back(tileable_layer(i, candidates[node_of(i)]));
  }
  for (const Edge& edge : instance_.edges) {
    const Candidate& from = instance_.nodes[edge.from].candidates[candidates[edge.from]];
    const Candidate& to = instance_.nodes[edge.to].candidates[candidates[edge.to]];
    layers[edge.to - 1].costs.kernel_ns +=
        static_cast<uint64_t>(edge.change_ns[from.layout_out * instance_.layouts + to.layout_in]);
  }
  return layers;
}

std::vector<uint64_t> JointNetwork::workspaces(const std::vector<uint32_t>& candidates) const {
  std::vector<uint64_t> bytes;
  for (uint32_t i = 0; i < network_.layers.size(); ++i) {
    bytes.push_back(own_workspace_bytes_[node_of(i)][candidates[node_of(i)]]);
  }
  return bytes;
}

uint64_t JointNetwork::whole_bytes(uint32_t node, uint32_t candidate) const {
  return is_in_tiles(node, candidate) ? 0 : instance_.nodes[node].candidates[candidate].held_bytes;
}

double JointNetwork::bytes_beside_plain(uint32_t node, const Candidate& candidate) const {
  if (node == 0) return 0;
  const Layer& layer = layer_of(node);
  const auto picture = [](const network::Shape& shape, uint32_t layout) {
    return layout == 0 ? 0 : ops::picture_bytes(shape, static_cast<ops::Layout>(layout));
  };
  return static_cast<double>(candidate.workspace_bytes + picture(layer.input, candidate.layout_in) +
                             picture(layer.output, candidate.layout_out));
}

uint64_t JointNetwork::copy_bytes(const Edge& edge, uint32_t layout) const {
  const auto& shape = edge.from == 0 ? network_.input : layer_of(edge.from).output;
  return ops::picture_bytes(shape, static_cast<ops::Layout>(layout));
}

uint64_t JointNetwork::arena_with_change(const Edge& edge, uint32_t layout) const {
  return live_bytes_[edge.to - 1] + copy_bytes(edge, layout);
}

// Whether the weights come in tiles; these need no room as a whole.
bool JointNetwork::is_in_tiles(uint32_t node, uint32_t candidate) const {
  if (node == 0) return true;
  const Layer& layer = layer_of(node);
  if (layer.weights() == 0) return true;
  return network::can_be_cut(layer) && is_run_by_infer(node, candidate);
}

bool JointNetwork::is_run_by_infer(uint32_t node, uint32_t candidate) const {
  const Layer& layer = layer_of(node);
  if (!is_convolution(layer)) return true;
  const auto& measured = profile_.convolutions.at(convolution_key(layer));
  return measured[candidate].traits.name == ops::in_tiles;
}

}  // namespace weightpager::plan
