#include "runtime/plan/joint_trials.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "pager/base/units.h"
#include "runtime/memory/activations.h"

namespace weightpager::plan {
namespace {

using pipeline::Tile;
using pipeline::TileableLayer;
using pipeline::UnitCosts;

constexpr uint64_t tile_sizes[] = {round_down(UINT64_MAX, os_page_bytes), 2 * MiB, 512 * KiB,
                                   128 * KiB, os_page_bytes};
// The cost of one more read, and the cost to a kernel of cutting its layer in two: OpenMP's signal
// to the other threads, and pictures that another processor has in its cache (all in memory, on two
// processors: 8 µs for each of GoogLeNet's 110 pieces). The times of whole layers include the
// latter (in_place.h).
constexpr uint64_t read_ns_per_tile = 10'000;
constexpr uint64_t kernel_ns_per_tile = 9'000;

bool is_whole(const Tile& tile, const std::vector<TileableLayer>& layers) {
  return tile.first_channel == 0 && tile.end_channel == layers[tile.layer].output_channels;
}

}  // namespace

JointTrials::Arena JointTrials::arena_of(const std::vector<uint32_t>& candidates) {
  return arena_of(network_.choices(candidates), network_.workspaces(candidates));
}

JointTrials::Arena JointTrials::arena_of(const std::vector<LayerChoice>& choices,
                                         const std::vector<uint64_t>& workspace_bytes) {
  std::vector<uint64_t> key = workspace_bytes;
  for (const LayerChoice& it : choices) {
    key.push_back(static_cast<uint64_t>(it.layout_in) << 8 | static_cast<uint64_t>(it.layout_out));
  }
  const auto [found, is_new] = arenas_.try_emplace(std::move(key));
  if (!is_new) return found->second;
  const network::Network& network = network_.network();
  const std::vector<uint64_t> none(workspace_bytes.size());
  found->second.bytes =
      memory::lay_out(network, memory_of(network, choices, workspace_bytes)).plan.total_bytes;
  found->second.activation_bytes =
      memory::lay_out(network, memory_of(network, choices, none)).plan.total_bytes;
  return found->second;
}

Tile JointTrials::largest_piece(const std::vector<uint32_t>& candidates) const {
  const Cut finest = cut(network_.tileable(candidates), tile_sizes[std::size(tile_sizes) - 1]);
  return *std::max_element(finest.tiles.begin(), finest.tiles.end(),
                           [](const Tile& left, const Tile& right) {
                             return left.costs.size_bytes < right.costs.size_bytes;
                           });
}

uint64_t JointTrials::taken_ns(uint64_t bytes) const {
  const TakenByReads& taken = network_.settings().taken;
  return static_cast<uint64_t>(taken.ns_per_read + static_cast<double>(bytes) * taken.ns_per_byte);
}

JointTrials::Cut JointTrials::cut(const std::vector<TileableLayer>& layers,
                                  uint64_t tile_bytes) const {
  Cut it;
  it.tiles = pipeline::tiles_in_pages(layers, {.tile_bytes_max = tile_bytes,
                                               .read_ns_per_tile = read_ns_per_tile,
                                               .kernel_ns_per_tile = kernel_ns_per_tile});
  for (Tile& tile : it.tiles) {
    if (tile.costs.size_bytes > 0) {
      tile.costs.read_latency_ns = network_.settings().read_latency_ns;
      tile.costs.taken_ns = taken_ns(tile.costs.size_bytes);
    }
    if (layers[tile.layer].output_channels == 1) continue;
    it.largest_in_tiles_bytes = std::max(it.largest_in_tiles_bytes, tile.costs.size_bytes);
  }
  it.costs = pipeline::costs_of(it.tiles);
  return it;
}

std::optional<JointTrials::Window> JointTrials::best_window(
    const std::vector<TileableLayer>& layers, uint64_t window_bytes, pipeline::PlanTrials trials) {
  std::optional<Window> best;
  for (const uint64_t tile_bytes : tile_sizes) {
    Cut cut = this->cut(layers, tile_bytes);
    const bool is_fine = 4 * cut.largest_in_tiles_bytes <= window_bytes;
    ++windows_tried_;
    auto window = pipeline::plan_window(pipeline::Pipeline::two_stage, cut.costs, window_bytes,
                                        trials, pipeline::Inferences::in_a_row);
    if (window && (!best || window->delay_ns < best->plan.delay_ns)) {
      trials.delay_ns_max = window->delay_ns;
      best = Window{std::move(cut), std::move(*window)};
    }
    if (is_fine || (best && trials.is_over())) break;
  }
  return best;
}

std::optional<JointPlan> JointTrials::try_out(const JointOption& option, uint64_t budget_bytes,
                                              const pipeline::PlanTrials& finest) {
  const pipeline::PlanTrials trials =
      pipeline::for_layers(finest, network_.network().layers.size());
  std::vector<LayerChoice> choices = network_.choices(option.candidates);
  const std::vector<uint64_t> workspace_bytes = network_.workspaces(option.candidates);
  const Arena arena = arena_of(choices, workspace_bytes);
  if (arena.bytes > budget_bytes) return std::nullopt;
  const uint64_t window_bytes = budget_bytes - arena.bytes;
  const auto delay_ns_max = static_cast<double>(trials.delay_ns_max);
  if (bounds_.bound_ns(option, window_bytes, delay_ns_max) > delay_ns_max) return std::nullopt;
  const std::vector<TileableLayer> layers = network_.tileable(option.candidates);
  const std::optional<Window> best = best_window(layers, window_bytes, trials);
  if (!best) return std::nullopt;

  JointPlan plan{.choices = std::move(choices),
                 .is_pinned = best->plan.is_pinned,
                 .rings = best->plan.rings,
                 .pinned_bytes = best->plan.pinned_bytes,
                 .arena_bytes = arena.bytes,
                 .activation_bytes = arena.activation_bytes,
                 .workspace_bytes = *std::ranges::max_element(workspace_bytes),
                 .read_bytes_per_pass = best->plan.bytes_per_pass,
                 .delay_ns = best->plan.delay_ns};
  for (const TileableLayer& it : layers) {
    plan.compute_ns += it.costs.kernel_ns;
    plan.weight_bytes += it.costs.size_bytes;
  }
  for (const Tile& tile : best->cut.tiles) {
    const network::Layer& layer = network_.network().layers[tile.layer];
    const auto channels = static_cast<uint32_t>(layer.channels_with_bias());
    plan.pieces.push_back(
        {tile.layer, tile.first_channel, is_whole(tile, layers) ? channels : tile.end_channel});
    plan.kernel_ns.push_back(tile.costs.kernel_ns);
  }
  for (const UnitCosts& it : pipeline::after_first_pass(best->cut.costs, best->plan.is_pinned)) {
    plan.reads_per_pass += it.size_bytes > 0;
  }
  return plan;
}

}  // namespace weightpager::plan
