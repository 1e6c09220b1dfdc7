#include "runtime/infer/layer_measurement.h"

#include <random>
#include <utility>

#include "pager/base/median.h"
#include "pager/base/units.h"
#include "runtime/infer/window_use.h"

namespace weightpager::infer {
namespace {

using network::Network;
using pipeline::UnitCosts;
using Runs = std::vector<std::vector<UnitCosts>>;

uint64_t median_of(const Runs& runs, size_t layer, uint64_t UnitCosts::*part) {
  std::vector<uint64_t> values;
  for (const auto& run : runs) values.push_back(run[layer].*part);
  return median(std::move(values));
}

}  // namespace

std::vector<float> some_input(const network::Network& network) {
  std::vector<float> input(network.input.elements());
  std::mt19937 random(1);
  std::uniform_real_distribution<float> brightness(0, 1);
  for (float& value : input) value = brightness(random);
  return input;
}

Result<std::vector<UnitCosts>> measure_layers(Inference& sequential, Inference& preloaded,
                                              std::span<const float> input, int repeats) {
  Runs alone, computed;
  const auto run = [&input](Inference& inference) -> Result<std::vector<UnitCosts>> {
    if (Status ran = inference.run({&input, 1}); !ran) return forward_error(std::move(ran));
    return inference.layer_costs();
  };
  for (int i = 0; i <= repeats; ++i) {
    auto costs_alone = run(sequential);
    if (!costs_alone) return costs_alone;
    auto costs_in_memory = &preloaded == &sequential ? costs_alone : run(preloaded);
    if (!costs_in_memory) return costs_in_memory;
    // The first run does not count: it reads pinned weights and fills caches.
    if (i == 0) continue;
    alone.push_back(std::move(*costs_alone));
    computed.push_back(std::move(*costs_in_memory));
  }
  std::vector<UnitCosts> layers;
  for (size_t layer = 0; layer < alone.front().size(); ++layer) {
    layers.push_back({.size_bytes = alone.front()[layer].size_bytes,
                      .read_ns = median_of(alone, layer, &UnitCosts::read_ns),
                      .copy_ns = median_of(alone, layer, &UnitCosts::copy_ns),
                      .kernel_ns = median_of(computed, layer, &UnitCosts::kernel_ns)});
  }
  return layers;
}

budget::Work work_of(const network::Layer& layer) {
  uint64_t tensors = 0;
  if (layer.weights() > 0) tensors = layer.is_batch_normalized() ? 5 : 2;
  return {.size_bytes = layer.folded_bytes(), .tensors = tensors, .operations = operations(layer)};
}

budget::BlockedNetwork modelled_costs(const Network& network, const budget::DelayModel& model) {
  std::vector<budget::Work> layers;
  for (const network::Layer& layer : network.layers) {
    layers.push_back(work_of(layer));
    layers.back().size_bytes = round_up(layers.back().size_bytes, os_page_bytes);
  }
  return budget::blocked_network(model, layers);
}

}  // namespace weightpager::infer
