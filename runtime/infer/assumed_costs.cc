#include "runtime/infer/assumed_costs.h"

#include <algorithm>

#include "pager/base/units.h"
#include "runtime/infer/window_use.h"

namespace weightpager::infer {

using network::Network;
using pipeline::UnitCosts;

namespace {

constexpr uint64_t kernel_ns_min = 200'000;
constexpr uint64_t read_latency_ns = 50'000;
constexpr uint64_t copy_latency_ns = 20'000;
constexpr double copy_bytes_per_ns = 14.56;

/// What kernels take whatever their operations, in equal shares. If the kernels together are faster
/// than that, half of their time.
double fixed_kernels_ns(const Network& network, double kernels_ns) {
  return std::min(static_cast<double>(kernel_ns_min * network.layers.size()), kernels_ns / 2);
}

}  // namespace

std::vector<UnitCosts> assumed_costs(const Network& network, const AssumedMachine& machine) {
  const uint64_t all_operations = operations(network);
  const double kernels_ns = machine.kernels_ms * 1e6;
  const double shared_ns = fixed_kernels_ns(network, kernels_ns);
  const double each_ns = shared_ns / static_cast<double>(network.layers.size());
  std::vector<UnitCosts> costs;
  for (const network::Layer& layer : network.layers) {
    const auto share = static_cast<double>(operations(layer)) /
                       static_cast<double>(std::max<uint64_t>(all_operations, 1));
    UnitCosts it = {.size_bytes = round_up(layer.folded_bytes(), os_page_bytes),
                    .kernel_ns = static_cast<uint64_t>(each_ns + share * (kernels_ns - shared_ns))};
    if (it.size_bytes > 0) {
      const auto bytes = static_cast<double>(it.size_bytes);
      it.read_ns = read_latency_ns + static_cast<uint64_t>(bytes / machine.disk_gb_per_s);
      it.copy_ns = copy_latency_ns + static_cast<uint64_t>(bytes / copy_bytes_per_ns);
    }
    costs.push_back(it);
  }
  return costs;
}

double resized_kernels_ms(const Network& network, double kernels_ms, const Network& resized) {
  const double fixed_ms = fixed_kernels_ns(network, kernels_ms * 1e6) / 1e6;
  const double ratio =
      static_cast<double>(operations(resized)) / static_cast<double>(operations(network));
  return fixed_ms + (kernels_ms - fixed_ms) * ratio;
}

std::vector<pipeline::Tile> assumed_tiles(const Network& network, std::span<const UnitCosts> costs,
                                          uint64_t tile_bytes_max) {
  std::vector<pipeline::TileableLayer> layers;
  for (size_t i = 0; i < costs.size(); ++i) {
    const auto channels = static_cast<uint32_t>(network.layers[i].channels_with_bias());
    layers.push_back({costs[i], std::max(channels, 1u)});
  }
  return pipeline::split_into_tiles(layers, {.tile_bytes_max = tile_bytes_max,
                                             .read_ns_per_tile = read_ns_per_tile,
                                             .kernel_ns_per_tile = kernel_ns_per_tile});
}

}  // namespace weightpager::infer
