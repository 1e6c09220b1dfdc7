// See swapnet_inputs.h.
#include "tools/commands/reproduce/swapnet_inputs.h"

#include <utility>

#include "runtime/budget/lookup_table.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"

namespace weightpager::tools::swapnet {
namespace {

using network::Layer;
using network::Network;

/// PyTorch's tensors: weights and biases; with batch normalization weights, scale, shift, mean,
/// variance and the number of batches.
budget::Work work_of_section(const Layer& layer) {
  budget::Work work = infer::work_of(layer);
  work.size_bytes = layer.raw_bytes();
  if (layer.weights() > 0) work.tensors = layer.is_batch_normalized() ? 6 : 2;
  return work;
}

/// The convolution of a projection: its input is routed around, and its output is added at once.
bool is_in_shortcut(const Network& network, size_t section) {
  if (section == 0 || section + 1 >= network.layers.size()) return false;
  return std::holds_alternative<network::Route>(network.layers[section - 1].operation) &&
         std::holds_alternative<network::Shortcut>(network.layers[section + 1].operation);
}

std::vector<PaperLayer> layers_of(const Network& network) {
  std::vector<PaperLayer> layers;
  for (uint32_t i = 0; i < network.layers.size(); ++i) {
    const Layer& section = network.layers[i];
    const bool begins_layer = section.weights() > 0 && !is_in_shortcut(network, i);
    if (begins_layer || layers.empty()) layers.push_back({.work = {}, .first_section = i});
    const budget::Work work = work_of_section(section);
    layers.back().work.size_bytes += work.size_bytes;
    layers.back().work.tensors += work.tensors;
    layers.back().work.operations += work.operations;
  }
  return layers;
}

budget::Work sum_of(const std::vector<PaperLayer>& layers) {
  budget::Work sum;
  for (const PaperLayer& it : layers) {
    sum.size_bytes += it.work.size_bytes;
    sum.tensors += it.work.tensors;
    sum.operations += it.work.operations;
  }
  return sum;
}

Result<Network> network_of(PaperModel model) {
  const std::string name = published(model).name;
  const auto text = network::make_description(name);
  if (!text) return tl::make_unexpected(text.error());
  return network::parse_network(*text, name);
}

/// How much ResNet-101, which the text has a latency of, has to let go and to compute.
Result<budget::Work> resnet_work() {
  const auto network = network_of(PaperModel::resnet101);
  if (!network) return tl::make_unexpected(network.error());
  return sum_of(layers_of(*network));
}

}  // namespace

const PublishedModel& published(PaperModel model) {
  static constexpr std::array<PublishedModel, 4> models = {
      {{"YOLOv3", "yolov3", 236, true},
       {"FCN", "fcn-resnet101", 207, true},
       {"VGG-19", "vgg19", 548, false},
       {"ResNet-101", "resnet101-projected", 170, false}}};
  return models[static_cast<size_t>(model)];
}

const std::vector<PublishedApplication>& applications() {
  using enum PaperModel;
  static const std::vector<PublishedApplication> all = {
      {.figure = "figure-11",
       .title = "self-driving",
       .budget_mb = 843,
       .tasks = {{vgg19, 475, 367}, {resnet101, 102, 83}, {yolov3, 142, 101}, {fcn, 124, 102}},
       .less_than_whole = {56.9, 82.8},
       .less_than_pruned = {35.7, 65.0},
       .less_than_by_channel = {42.0, 66.4},
       .increase_ms = {26, 46}},
      {.figure = "figure-12",
       .title = "road-side unit",
       .budget_mb = 1088,
       .tasks = {{vgg19, 520, 0},
                 {resnet101, 119, 0},
                 {resnet101, 119, 0},
                 {yolov3, 165, 0},
                 {yolov3, 165, 0}},
       .less_than_whole = {53.4, 77.1},
       .less_than_pruned = {38.6, 59.1},
       .less_than_by_channel = {45.6, 66.0},
       .increase_ms = {14, 47}},
      {.figure = "figure-13",
       .title = "UAV",
       .budget_mb = 325,
       .tasks = {{resnet101, 136, 0}, {yolov3, 189, 0}},
       .less_than_whole = {64.4, 74.6},
       .less_than_pruned = {49.2, 65.7},
       .less_than_by_channel = {51.8, 66.9},
       .increase_ms = {8, 37}}};
  return all;
}

uint64_t PaperNetwork::size_bytes() const { return budget::BlockSums(costs).all().size_bytes; }
uint64_t PaperNetwork::in_memory_ns() const { return budget::BlockSums(costs).all().kernel_ns; }

Result<PaperNetwork> paper_network(PaperModel model) {
  auto network = network_of(model);
  if (!network) return forward_error(std::move(network));
  const auto resnet = resnet_work();
  if (!resnet) return tl::make_unexpected(resnet.error());
  PaperNetwork made = {.known = published(model), .network = std::move(*network)};
  made.layers = layers_of(made.network);
  const double cpu_ns_per_operation =
      1e6 * (resnet_three_blocks_ms - resnet_increase_ms) / static_cast<double>(resnet->operations);
  const double gpu_ns_per_operation =
      1e6 * gpu_latency_ms / static_cast<double>(sum_of(made.layers).operations);
  made.delays = {
      .read_ns_per_byte = 1 / disk_gb_per_s,
      .read_ns_per_tensor = 1000 * reference_us,
      .kernel_ns_per_operation = made.known.is_on_gpu ? gpu_ns_per_operation : cpu_ns_per_operation,
      .release_ns_per_tensor = 1e6 * release_ms / static_cast<double>(resnet->tensors)};
  std::vector<budget::Work> work;
  for (const PaperLayer& it : made.layers) work.push_back(it.work);
  made.costs = budget::blocked_network(made.delays, work);
  return made;
}

Increase increase_of(const PaperNetwork& network, const budget::BlockEnds& ends) {
  return {.with_first_read_ns = budget::delay_ns(network.costs, ends) - network.in_memory_ns(),
          .by_equation_ns = budget::uncovered_ns(budget::block_costs(network.costs, ends))};
}

}  // namespace weightpager::tools::swapnet
