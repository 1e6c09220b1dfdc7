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

uint64_t median_of(const LayerRuns& runs, size_t layer, uint64_t UnitCosts::*part) {
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

Result<LayerRuns> run_layers(Inference& sequential, Inference& preloaded,
                             std::span<const float> input, int repeats) {
  LayerRuns runs;
  const auto run = [&input](Inference& inference) -> Result<std::vector<UnitCosts>> {
    if (Status ran = inference.run({&input, 1}); !ran) return forward_error(std::move(ran));
    return inference.layer_costs();
  };
  for (int i = 0; i <= repeats; ++i) {
    auto costs = run(sequential);
    if (!costs) return forward_error(std::move(costs));
    const auto computed = &preloaded == &sequential ? costs : run(preloaded);
    if (!computed) return tl::make_unexpected(computed.error());
    // The first run does not count: it reads pinned weights and fills caches.
    if (i == 0) continue;
    for (size_t layer = 0; layer < costs->size(); ++layer)
      (*costs)[layer].kernel_ns = (*computed)[layer].kernel_ns;
    runs.push_back(std::move(*costs));
  }
  return runs;
}

std::vector<UnitCosts> median_costs(const LayerRuns& runs) {
  std::vector<UnitCosts> layers;
  for (size_t layer = 0; layer < runs.front().size(); ++layer) {
    layers.push_back({.size_bytes = runs.front()[layer].size_bytes,
                      .read_ns = median_of(runs, layer, &UnitCosts::read_ns),
                      .copy_ns = median_of(runs, layer, &UnitCosts::copy_ns),
                      .kernel_ns = median_of(runs, layer, &UnitCosts::kernel_ns)});
  }
  return layers;
}

Result<std::vector<UnitCosts>> measure_layers(Inference& sequential, Inference& preloaded,
                                              std::span<const float> input, int repeats) {
  const auto runs = run_layers(sequential, preloaded, input, repeats);
  if (!runs) return tl::make_unexpected(runs.error());
  return median_costs(*runs);
}

budget::Work work_of(const network::Layer& layer) {
  uint64_t tensors = 0;
  if (layer.weights() > 0) tensors = layer.is_batch_normalized() ? 5 : 2;
  return {.size_bytes = layer.folded_bytes(), .tensors = tensors, .operations = operations(layer)};
}

Result<std::vector<budget::Sample>> measure_samples(const Network& network,
                                                    const std::string& weights_path, int threads,
                                                    int repeats, uint64_t promised_bytes) {
  InferenceOptions options = {.threads = threads, .promised_bytes = promised_bytes};
  options.window.pipeline = pipeline::Pipeline::sequential;
  const auto sequential = Inference::open(network, weights_path, options);
  if (!sequential) return tl::make_unexpected(sequential.error());
  options.promised_bytes += (*sequential)->promised_bytes();
  options.window.pipeline = pipeline::Pipeline::two_stage;
  options.window.blocks.emplace();
  for (uint32_t end = 1; end <= network.layers.size(); ++end)
    options.window.blocks->ends.push_back(end);
  const auto in_blocks = Inference::open(network, weights_path, options);
  if (!in_blocks) return tl::make_unexpected(in_blocks.error());
  const auto costs = measure_layers(**sequential, **in_blocks, some_input(network), repeats);
  if (!costs) return tl::make_unexpected(costs.error());
  std::vector<budget::Sample> samples;
  for (size_t i = 0; i < costs->size(); ++i) {
    samples.push_back({.work = work_of(network.layers[i]),
                       .read_ns = (*costs)[i].read_ns,
                       .kernel_ns = (*costs)[i].kernel_ns});
    // Reads are of whole pages, so the bytes that are read count, not those that are needed.
    samples.back().work.size_bytes = (*costs)[i].size_bytes;
  }
  return samples;
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
