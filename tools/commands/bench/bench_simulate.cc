// `weightpager bench simulate`: compares memory with delay on disks that are not at hand, by the
// equations of runtime/pipeline/timeline.h. No weights are read and nothing is computed.
//
// The costs of layers reproduce the Demand Layering paper's delays for YOLOv4 to within half a
// percent. A kernel takes a share of the total in proportion to its operations, and 0.2 ms. A read
// takes its bytes at the disk's speed, and 0.05 ms; a copy takes its bytes at the bus's speed, and
// 0.02 ms. Tiles and the arena overlay are those of `infer`.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "pager/base/units.h"
#include "runtime/infer/window_use.h"
#include "runtime/memory/activations.h"
#include "runtime/network/parser.h"
#include "runtime/pipeline/arena_overlay.h"
#include "runtime/pipeline/search.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/pipeline/timeline.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"

namespace weightpager::tools {
namespace {

using network::Network;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

constexpr uint64_t kernel_ns_min = 200'000;
constexpr uint64_t read_latency_ns = 50'000;
constexpr uint64_t copy_latency_ns = 20'000;
constexpr double copy_bytes_per_ns = 14.56;
// The cost of each tile after a layer's first one.
constexpr uint64_t read_ns_per_tile = 50'000;
constexpr uint64_t kernel_ns_per_tile = 20'000;
/// A window counts as without delay if its delay exceeds the least one by at most this share.
constexpr double tolerance = 0.003;

}  // namespace

Command bench_simulate_description() {
  return {.name = "weightpager bench simulate",
          .purpose =
              "Computes a network\'s delay in every pipeline by equations, on disks from slow to\n"
              "fast. Runs nothing.\n",
          .usage = "  weightpager bench simulate NET.cfg --kernels MS [OPTIONS]\n",
          .options = {{0, "kernels", "MS", "the time of computing all layers: 160.8"},
                      {0, "disks", "GB/S,…", "speeds of disks (0.5,1,2,3,5,7,14)"},
                      {0, "windows", "SIZE,…",
                       "windows of 2S with layers in tiles, without and with arena\n"
                       "overlay (4MiB,9MiB)"},
                      {0, "tile", "SIZE", "largest tile (2MiB)"}},
          .examples =
              "  weightpager model make --net yolov4 -o nets\n"
              "  weightpager bench simulate nets/yolov4.cfg --kernels 160.8\n",
          .exit_status = "  0 computed, 1 the network cannot be read, 2 misuse\n"};
}

namespace {

struct SimulateOptions {
  std::string cfg_path;
  double kernels_ms = 0;
  std::vector<double> disks_gb_per_s;
  std::vector<uint64_t> windows_bytes;
  uint64_t tile_bytes = 0;
};

Result<SimulateOptions> read_simulate_options(const Arguments& arguments) {
  if (arguments.operands().size() != 1) {
    return fail("expected one .cfg", "weightpager bench simulate yolov4.cfg --kernels 160.8");
  }
  if (!arguments.has("kernels")) {
    return fail("--kernels is missing",
                "`weightpager bench pipelines` measures it as the delay of Pre");
  }
  SimulateOptions options = {.cfg_path = arguments.operands()[0]};
  const auto kernels = parse_number(*arguments.value("kernels"), "--kernels", times_ms);
  if (!kernels) return tl::make_unexpected(kernels.error());
  options.kernels_ms = *kernels;
  auto disks = parse_numbers(arguments.value("disks").value_or("0.5,1,2,3,5,7,14"), "--disks",
                             bandwidths_gb_per_s);
  if (!disks) return forward_error(std::move(disks));
  options.disks_gb_per_s = std::move(*disks);
  auto windows = parse_sizes(arguments.value("windows").value_or("4MiB,9MiB"), "--windows");
  if (!windows) return forward_error(std::move(windows));
  options.windows_bytes = std::move(*windows);
  const auto tile = parse_bytes(arguments.value("tile").value_or("2MiB"), "--tile", os_page_bytes);
  if (!tile) return tl::make_unexpected(tile.error());
  options.tile_bytes = round_down(*tile, os_page_bytes);
  return options;
}

/// The costs of each layer, as the head of this file describes them.
std::vector<UnitCosts> layer_costs(const Network& network, double kernels_ms,
                                   double disk_gb_per_s) {
  const uint64_t all_operations =
      std::accumulate(network.layers.begin(), network.layers.end(), uint64_t{0},
                      [](uint64_t sum, const auto& it) { return sum + infer::operations(it); });
  // If the kernels together are faster than their fixed costs, these are half of the kernels' time,
  // in equal shares.
  const double shared_ns =
      std::min(static_cast<double>(kernel_ns_min * network.layers.size()), kernels_ms * 1e6 / 2);
  const double each_ns = shared_ns / static_cast<double>(network.layers.size());
  std::vector<UnitCosts> costs;
  for (const network::Layer& layer : network.layers) {
    const auto share = static_cast<double>(infer::operations(layer)) /
                       static_cast<double>(std::max<uint64_t>(all_operations, 1));
    UnitCosts it = {
        .size_bytes = round_up(layer.folded_bytes(), os_page_bytes),
        .kernel_ns = static_cast<uint64_t>(each_ns + share * (kernels_ms * 1e6 - shared_ns))};
    if (it.size_bytes > 0) {
      const auto bytes = static_cast<double>(it.size_bytes);
      it.read_ns = read_latency_ns + static_cast<uint64_t>(bytes / disk_gb_per_s);
      it.copy_ns = copy_latency_ns + static_cast<uint64_t>(bytes / copy_bytes_per_ns);
    }
    costs.push_back(it);
  }
  return costs;
}

uint64_t delay_at_least_window_ns(Pipeline pipeline, std::span<const UnitCosts> costs) {
  const Rings rings = pipeline::smallest_rings(pipeline, pipeline::work_units(costs));
  return pipeline::delay_ns(pipeline, costs, rings);
}

std::vector<pipeline::Tile> tiles_of(const Network& network, std::span<const UnitCosts> costs,
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

// Tiles that are joined in the arena are one unit, which pays a tile's fixed cost once.
std::vector<UnitCosts> with_overlay(const memory::ActivationLayout& layout,
                                    std::span<const pipeline::Tile> tiles, uint64_t ring_bytes) {
  std::vector<pipeline::UnitToPlace> units;
  for (const pipeline::Tile& tile : tiles) {
    units.push_back({.layer = tile.layer, .size_bytes = tile.costs.size_bytes});
  }
  std::vector<UnitCosts> costs;
  for (const pipeline::PlacedUnit& placed : pipeline::place_units(
           units, ring_bytes, infer::arena_uses(layout), layout.plan.total_bytes)) {
    UnitCosts it = tiles[placed.first].costs;
    for (uint32_t next = placed.first + 1; next < placed.end; ++next) {
      it.size_bytes += tiles[next].costs.size_bytes;
      it.read_ns += tiles[next].costs.read_ns - read_ns_per_tile;
      it.kernel_ns += tiles[next].costs.kernel_ns - kernel_ns_per_tile;
    }
    it.overlay = placed.overlay;
    costs.push_back(it);
  }
  return costs;
}

/// Delays of 2S in a window, with layers in tiles. 0: the window is too small for a tile.
struct TiledDelays {
  uint64_t without_overlay_ns = 0;
  uint64_t with_overlay_ns = 0;
};
TiledDelays delays_with_tiles(const Network& network, const memory::ActivationLayout& layout,
                              std::span<const UnitCosts> costs, uint64_t tile_bytes,
                              uint64_t window_bytes) {
  const auto tiles = tiles_of(network, costs, std::min(tile_bytes, window_bytes));
  const auto in_ring = pipeline::costs_of(tiles);
  const Rings needed = pipeline::smallest_rings(Pipeline::two_stage, pipeline::work_units(in_ring));
  if (needed.host_bytes > window_bytes) return {};
  const Rings rings = {.host_bytes = window_bytes};
  const auto overlaid = with_overlay(layout, tiles, window_bytes);
  return {pipeline::delay_ns(Pipeline::two_stage, in_ring, rings),
          pipeline::delay_ns(Pipeline::two_stage, overlaid, rings)};
}

std::string delay_text(uint64_t ns) {
  return ns == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(ns) / 1e6);
}

std::string with_window(Pipeline pipeline, std::span<const UnitCosts> costs) {
  const Rings rings = pipeline::smallest_rings_without_stalls(pipeline, costs, tolerance);
  return fmt::format("{} @{:.1f}", delay_text(pipeline::delay_ns(pipeline, costs, rings)),
                     static_cast<double>(rings.bytes()) / static_cast<double>(MiB));
}

void print_table(const Network& network, const SimulateOptions& options) {
  fmt::print(
      "{}: {:.1f} MiB of weights, the largest layer {:.1f}; kernels {:.1f} ms. Delays in ms, "
      "@ window in MiB\n\n{:>9} {:>8} {:>8} {:>8} {:>8} {:>15} {:>15}",
      options.cfg_path, static_cast<double>(network.folded_bytes()) / static_cast<double>(MiB),
      static_cast<double>(network.largest_folded_bytes()) / static_cast<double>(MiB),
      options.kernels_ms, "disk GB/s", "Seq", "Sync", "Async", "2S", "Async-MD", "2S-MD");
  for (const uint64_t window : options.windows_bytes) {
    fmt::print(" {:>15} {:>16}", "tiles " + format_size(window), "overlay " + format_size(window));
  }
  fmt::print("\n");
  const memory::ActivationLayout layout = memory::lay_out(network);
  for (const double disk : options.disks_gb_per_s) {
    const auto costs = layer_costs(network, options.kernels_ms, disk);
    fmt::print("{:>9}", disk);
    for (const Pipeline pipeline : {Pipeline::sequential, Pipeline::synchronous,
                                    Pipeline::asynchronous, Pipeline::two_stage}) {
      fmt::print(" {:>8}", delay_text(delay_at_least_window_ns(pipeline, costs)));
    }
    fmt::print(" {:>15} {:>15}", with_window(Pipeline::asynchronous, costs),
               with_window(Pipeline::two_stage, costs));
    for (const uint64_t window : options.windows_bytes) {
      const auto tiled = delays_with_tiles(network, layout, costs, options.tile_bytes, window);
      fmt::print(" {:>15} {:>16}", delay_text(tiled.without_overlay_ns),
                 delay_text(tiled.with_overlay_ns));
    }
    fmt::print("\n");
  }
}

int simulate(const SimulateOptions& options) {
  const auto network = network::read_network(options.cfg_path);
  if (!network) return failure(network.error());
  print_table(*network, options);
  return exit_success;
}

}  // namespace

int bench_simulate_command(const std::vector<std::string>& words) {
  return carry_out(bench_simulate_description(), words, read_simulate_options, simulate);
}

}  // namespace weightpager::tools
