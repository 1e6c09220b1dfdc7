// `weightpager bench simulate`: compares memory with delay on disks that are not at hand, by the
// equations of runtime/pipeline/timeline.h. No weights are read and nothing is computed. The costs
// of layers are assumed (runtime/infer/assumed_costs.h). Tiles and the arena overlay are those of
// `infer`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "runtime/infer/assumed_costs.h"
#include "runtime/infer/window_use.h"
#include "runtime/memory/activations.h"
#include "runtime/network/parser.h"
#include "runtime/pipeline/arena_overlay.h"
#include "runtime/pipeline/search.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/pipeline/timeline.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using network::Network;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

constexpr int simulate_schema_version = 1;
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
                      {0, "tile", "SIZE", "largest tile (2MiB)"},
                      resolution_option(),
                      {0, "json", "FILE", "write all delays and windows to FILE"}},
          .examples =
              "  weightpager model make --net yolov4 -o nets\n"
              "  weightpager bench simulate nets/yolov4.cfg --kernels 160.8\n",
          .exit_status = "  0 computed, 1 the network cannot be read, 2 misuse\n"};
}

namespace {

struct SimulateOptions {
  std::string cfg_path;
  std::optional<network::Resolution> resolution;
  double kernels_ms = 0;
  std::vector<double> disks_gb_per_s;
  std::vector<uint64_t> windows_bytes;
  uint64_t tile_bytes = 0;
  std::string json_path;
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
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return tl::make_unexpected(resolution.error());
  options.resolution = *resolution;
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
  options.json_path = arguments.value("json").value_or("");
  return options;
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
      it.read_ns += tiles[next].costs.read_ns - infer::read_ns_per_tile;
      it.kernel_ns += tiles[next].costs.kernel_ns - infer::kernel_ns_per_tile;
    }
    it.overlay = placed.overlay;
    costs.push_back(it);
  }
  return costs;
}

/// Delays of 2S in a window, with layers in tiles. 0: the window is too small for a tile.
struct TiledDelays {
  uint64_t window_bytes = 0;
  uint64_t without_overlay_ns = 0;
  uint64_t with_overlay_ns = 0;
};
TiledDelays delays_with_tiles(const Network& network, const memory::ActivationLayout& layout,
                              std::span<const UnitCosts> costs, uint64_t tile_bytes,
                              uint64_t window_bytes) {
  TiledDelays delays = {.window_bytes = window_bytes};
  const auto tiles = infer::assumed_tiles(network, costs, std::min(tile_bytes, window_bytes));
  const auto in_ring = pipeline::costs_of(tiles);
  const Rings needed = pipeline::smallest_rings(Pipeline::two_stage, pipeline::work_units(in_ring));
  if (needed.host_bytes > window_bytes) return delays;
  const Rings rings = {.host_bytes = window_bytes};
  const auto overlaid = with_overlay(layout, tiles, window_bytes);
  delays.without_overlay_ns = pipeline::delay_ns(Pipeline::two_stage, in_ring, rings);
  delays.with_overlay_ns = pipeline::delay_ns(Pipeline::two_stage, overlaid, rings);
  return delays;
}

struct PipelineDelay {
  Pipeline pipeline;
  uint64_t window_bytes = 0;
  uint64_t delay_ns = 0;
};
/// What one disk gives: the paper's pipelines in their smallest windows, the smallest windows
/// without delay, and windows that are smaller than a layer.
struct DiskDelays {
  double disk_gb_per_s = 0;
  std::vector<PipelineDelay> least_memory;
  std::vector<PipelineDelay> least_delay;
  std::vector<TiledDelays> tiled;
};

DiskDelays delays_on(const Network& network, const memory::ActivationLayout& layout,
                     const SimulateOptions& options, double disk_gb_per_s) {
  DiskDelays delays = {.disk_gb_per_s = disk_gb_per_s};
  const auto costs = infer::assumed_costs(network, {options.kernels_ms, disk_gb_per_s});
  const auto delay_in = [&](Pipeline pipeline, const Rings& rings) {
    return PipelineDelay{pipeline, rings.bytes(), pipeline::delay_ns(pipeline, costs, rings)};
  };
  for (const Pipeline pipeline :
       {Pipeline::sequential, Pipeline::synchronous, Pipeline::asynchronous, Pipeline::two_stage}) {
    delays.least_memory.push_back(
        delay_in(pipeline, pipeline::smallest_rings(pipeline, pipeline::work_units(costs))));
  }
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    delays.least_delay.push_back(
        delay_in(pipeline, pipeline::smallest_rings_without_stalls(pipeline, costs, tolerance)));
  }
  for (const uint64_t window : options.windows_bytes) {
    delays.tiled.push_back(delays_with_tiles(network, layout, costs, options.tile_bytes, window));
  }
  return delays;
}

std::string delay_text(uint64_t ns) {
  return ns == 0 ? "-" : fmt::format("{:.1f}", static_cast<double>(ns) / 1e6);
}

void print_head(const Network& network, const SimulateOptions& options) {
  fmt::print(
      "{}: {:.1f} MiB of weights, the largest layer {:.1f}; kernels {:.1f} ms. Delays in ms, "
      "@ window in MiB\n\n{:>9} {:>8} {:>8} {:>8} {:>8} {:>15} {:>15}",
      options.cfg_path, mebibytes(network.folded_bytes()),
      mebibytes(network.largest_folded_bytes()), options.kernels_ms, "disk GB/s", "Seq", "Sync",
      "Async", "2S", "Async-MD", "2S-MD");
  for (const uint64_t window : options.windows_bytes) {
    fmt::print(" {:>15} {:>16}", "tiles " + format_size(window), "overlay " + format_size(window));
  }
  fmt::print("\n");
}

void print_row(const DiskDelays& delays) {
  fmt::print("{:>9}", delays.disk_gb_per_s);
  for (const PipelineDelay& it : delays.least_memory) fmt::print(" {:>8}", delay_text(it.delay_ns));
  for (const PipelineDelay& it : delays.least_delay) {
    fmt::print(" {:>15}",
               fmt::format("{} @{:.1f}", delay_text(it.delay_ns), mebibytes(it.window_bytes)));
  }
  for (const TiledDelays& it : delays.tiled) {
    fmt::print(" {:>15} {:>16}", delay_text(it.without_overlay_ns), delay_text(it.with_overlay_ns));
  }
  fmt::print("\n");
}

nlohmann::ordered_json to_json(const std::vector<PipelineDelay>& delays) {
  auto json = nlohmann::ordered_json::array();
  for (const PipelineDelay& it : delays) {
    json.push_back({{"pipeline", pipeline::name(it.pipeline)},
                    {"window_bytes", it.window_bytes},
                    {"delay_ns", it.delay_ns}});
  }
  return json;
}

nlohmann::ordered_json to_json(const Network& network, const SimulateOptions& options,
                               const std::vector<DiskDelays>& disks) {
  nlohmann::ordered_json json = {{"schema_version", simulate_schema_version},
                                 {"network", options.cfg_path},
                                 {"weights_bytes", network.folded_bytes()},
                                 {"largest_layer_bytes", network.largest_folded_bytes()},
                                 {"kernels_ms", options.kernels_ms},
                                 {"tile_bytes_max", options.tile_bytes}};
  for (const DiskDelays& delays : disks) {
    nlohmann::ordered_json disk = {{"disk_gb_per_s", delays.disk_gb_per_s},
                                   {"least_memory", to_json(delays.least_memory)},
                                   {"least_delay", to_json(delays.least_delay)}};
    for (const TiledDelays& it : delays.tiled) {
      // A window that is too small has no delay.
      const auto delay_or_null = [](uint64_t ns) {
        return ns == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(ns);
      };
      disk["tiled"].push_back({{"window_bytes", it.window_bytes},
                               {"without_overlay_ns", delay_or_null(it.without_overlay_ns)},
                               {"with_overlay_ns", delay_or_null(it.with_overlay_ns)}});
    }
    json["disks"].push_back(std::move(disk));
  }
  return json;
}

int simulate(const SimulateOptions& options) {
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  const auto network = network::read_network(options.cfg_path, options.resolution);
  if (!network) return failure(network.error());
  const memory::ActivationLayout layout = memory::lay_out(*network);
  print_head(*network, options);
  std::vector<DiskDelays> disks;
  for (const double disk_gb_per_s : options.disks_gb_per_s) {
    disks.push_back(delays_on(*network, layout, options, disk_gb_per_s));
    print_row(disks.back());
  }
  if (!*report) return exit_success;
  const auto written = (*report)->commit(to_json(*network, options, disks).dump(2) + "\n");
  return written ? exit_success : failure(written.error());
}

}  // namespace

int bench_simulate_command(const std::vector<std::string>& words) {
  return carry_out(bench_simulate_description(), words, read_simulate_options, simulate);
}

}  // namespace weightpager::tools
