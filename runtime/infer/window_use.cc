#include "runtime/infer/window_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pager/base/units.h"
#include "runtime/infer/block_use.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/pipeline/pinning.h"
#include "runtime/pipeline/tiles.h"

namespace weightpager::infer {
namespace {

using network::Convolutional;
using network::FileRange;
using network::Layer;
using network::Network;
using network::Piece;
using network::WeightSource;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitBytes;
using pipeline::UnitCosts;

// Rates for estimates, of today's disks and memory and of two processors or a GPU. Only their
// ratios matter, and only for the choice of pinned weights.
struct Rates {
  double read_bytes_per_ns;
  double copy_bytes_per_ns;
  double operations_per_ns;
  uint64_t kernel_ns_min;
};
// A plan's ring may be larger by this than the ring can use.
constexpr uint64_t ring_slack_bytes = 16 * MiB;
constexpr Rates processor_rates = {2, 8, 80, 20'000};
constexpr Rates gpu_rates = {2, 20, 20'000, 10'000};

UnitBytes unit_bytes(const FileRange& range) {
  return {.offset_bytes = range.offset_bytes,
          .length_bytes = range.length_bytes,
          .needed_bytes = range.needed_bytes};
}

UnitCosts estimate(const Layer& layer, const Rates& rates) {
  const auto bytes = static_cast<double>(layer.weights() * sizeof(float));
  const auto operations_of_layer = static_cast<double>(operations(layer));
  return {.read_ns = static_cast<uint64_t>(bytes / rates.read_bytes_per_ns),
          .copy_ns = static_cast<uint64_t>(bytes / rates.copy_bytes_per_ns),
          .kernel_ns = rates.kernel_ns_min +
                       static_cast<uint64_t>(operations_of_layer / rates.operations_per_ns)};
}

struct CutNetwork {
  std::vector<Piece> pieces;
  std::vector<UnitBytes> units;
  std::vector<UnitCosts> costs;

  Rings smallest_rings(Pipeline pipeline) const {
    return pipeline::smallest_rings(pipeline, pipeline::work_units(costs));
  }
};

/// By layer; sizes are those of the weights.
std::vector<UnitCosts> costs_of_layers(const Network& network, const WeightSource& source,
                                       const WindowRequest& request) {
  const Rates& rates = request.device == DeviceKind::cuda ? gpu_rates : processor_rates;
  std::vector<UnitCosts> costs;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    costs.push_back(request.layer_costs.empty() ? estimate(network.layers[i], rates)
                                                : request.layer_costs[i]);
    costs.back().size_bytes = source.weight_bytes(static_cast<uint32_t>(i));
  }
  return costs;
}

CutNetwork cut(const Network& network, const WeightSource& source, const WindowRequest& request,
               uint64_t tile_bytes_max) {
  const std::vector<UnitCosts> costs = costs_of_layers(network, source, request);
  std::vector<pipeline::TileableLayer> layers;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const auto channels = static_cast<uint32_t>(layer.channels_with_bias());
    layers.push_back(
        {costs[i], source.can_be_cut(static_cast<uint32_t>(i)) ? channels : 1,
         request.device == DeviceKind::cuda ? ops::tile_channels : ops::channel_step(layer)});
  }
  CutNetwork it;
  for (const pipeline::Tile& tile :
       pipeline::split_into_tiles(layers, {.tile_bytes_max = tile_bytes_max})) {
    const bool is_whole = tile.end_channel == layers[tile.layer].output_channels;
    const Piece piece = tile.first_channel == 0 && is_whole
                            ? source.whole(tile.layer)
                            : Piece{tile.layer, tile.first_channel, tile.end_channel};
    const FileRange range = source.range(piece);
    it.pieces.push_back(piece);
    it.units.push_back(unit_bytes(range));
    it.costs.push_back(tile.costs);
    it.costs.back().size_bytes = range.length_bytes;
  }
  return it;
}

/// The number of pieces that a ring should have room for. If stages go at their own pace, there are
/// three: one computes, one waits, and one is read, so the disk need not wait for the first.
uint64_t pieces_at_once(Pipeline pipeline) {
  if (pipeline == Pipeline::sequential) return 1;
  return pipeline == Pipeline::synchronous ? 2 : 3;
}

/// A piece is read from a page's start to a page's end.
uint64_t tile_for(uint64_t ring_bytes, uint64_t at_once) {
  const uint64_t part = round_down(ring_bytes / at_once, os_page_bytes);
  return std::max(part, 3 * os_page_bytes) - 2 * os_page_bytes;
}

/// The size of each ring if the window consists of rings of equal size.
uint64_t ring_share(Pipeline pipeline, uint64_t window_bytes) {
  const bool has_two = pipeline != Pipeline::two_stage && pipeline != Pipeline::preload;
  return round_down(has_two ? window_bytes / 2 : window_bytes, os_page_bytes);
}

CutNetwork cut_for_window(const Network& network, const WeightSource& source,
                          const WindowRequest& request) {
  if (request.tile_bytes_max) {
    return cut(network, source, request,
               std::max(round_down(*request.tile_bytes_max, os_page_bytes), os_page_bytes));
  }
  CutNetwork whole = cut(network, source, request, round_down(UINT64_MAX, os_page_bytes));
  if (request.pipeline == Pipeline::preload || request.window_bytes == 0) return whole;
  uint64_t largest_bytes = 0;
  for (const UnitBytes& unit : whole.units) {
    largest_bytes = std::max(largest_bytes, unit.length_bytes);
  }
  const uint64_t ring_bytes = ring_share(request.pipeline, request.window_bytes);
  const uint64_t at_once = pieces_at_once(request.pipeline);
  if (at_once * largest_bytes <= ring_bytes) return whole;
  return cut(network, source, request, tile_for(ring_bytes, at_once));
}

auto too_small(const WindowRequest& request, uint64_t needed_bytes) {
  return fail(fmt::format("a window of {} is too small for the pipeline {}: it takes {} at least",
                          format_size(request.window_bytes), name(request.pipeline),
                          format_size(needed_bytes)),
              request.tile_bytes_max
                  ? "give a larger --window, or smaller tiles (--tile)"
                  : fmt::format("give --window {}KiB or more", (needed_bytes + KiB - 1) / KiB));
}

uint64_t largest_unit(const WindowUse& use) {
  uint64_t largest_bytes = 0;
  for (const UnitBytes& unit : use.units) {
    largest_bytes = std::max(largest_bytes, unit.length_bytes);
  }
  return largest_bytes;
}

// All weights are in memory. Only on a GPU do they come there through a ring.
Result<WindowUse> use_for_preload(WindowUse use, const WindowRequest& request) {
  uint64_t all_bytes = 0;
  for (const UnitBytes& unit : use.units) all_bytes += unit.length_bytes;
  if (request.device == DeviceKind::cuda) use.rings.host_bytes = largest_unit(use);
  all_bytes += use.rings.host_bytes;
  if (request.window_bytes != 0 && request.window_bytes < all_bytes) {
    return too_small(request, all_bytes);
  }
  return use;
}

// Rounds the ring to a whole number of a GPU's steps, upwards if the window has room for that.
void round_gpu_ring(Rings& rings, uint64_t needed_bytes, uint64_t spare_bytes) {
  const uint64_t up_bytes = round_up(rings.device_bytes, pipeline::gpu_ring_step_bytes);
  const uint64_t down_bytes = round_down(rings.device_bytes, pipeline::gpu_ring_step_bytes);
  if (up_bytes - rings.device_bytes <= spare_bytes) {
    rings.device_bytes = up_bytes;
  } else if (down_bytes >= needed_bytes) {
    rings.device_bytes = down_bytes;
  }
}

// Refuses rings that are too small or too large. In a ring that is too small a unit would wait for
// ever. A ring never needs more than the bytes that two passes read.
Status check_plan(const WindowUse& use, const plan::JointPlan& plan, const WeightSource& source) {
  const char* const again = "make it again: weightpager plan NET.cfg --budget SIZE -o FILE";
  uint64_t pinned_bytes = 0;
  uint64_t streamed_bytes = 0;
  uint64_t ring_bytes_min = 0;
  for (const UnitBytes& it : use.units) {
    (it.is_pinned ? pinned_bytes : streamed_bytes) += it.length_bytes;
    if (!it.is_pinned) ring_bytes_min = std::max(ring_bytes_min, it.length_bytes);
  }
  const uint64_t ring_bytes_max = 2 * streamed_bytes + ring_slack_bytes;
  if (plan.rings.host_bytes < ring_bytes_min || plan.rings.host_bytes > ring_bytes_max) {
    return fail(fmt::format("the plan's \"ring_bytes\" is {}: expected {} to {} for the weights of "
                            "{}",
                            plan.rings.host_bytes, ring_bytes_min, ring_bytes_max, source.path()),
                again);
  }
  if (pinned_bytes > plan.pinned_bytes) {
    return fail(fmt::format("the plan's \"pinned_bytes\" is {}: of {} its pieces pin {}",
                            plan.pinned_bytes, source.path(), pinned_bytes),
                again);
  }
  return {};
}

}  // namespace

Result<WindowUse> use_plan(const WeightSource& source, const plan::JointPlan& plan) {
  WindowUse use{.pieces = plan.pieces, .rings = plan.rings};
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    const FileRange range = source.range(plan.pieces[i]);
    use.units.push_back(unit_bytes(range));
    use.units.back().is_pinned = plan.is_pinned[i];
    const auto bytes = static_cast<double>(range.length_bytes);
    const auto read_ns = static_cast<uint64_t>(bytes / processor_rates.read_bytes_per_ns);
    use.costs.push_back(
        {.size_bytes = range.length_bytes, .read_ns = read_ns, .kernel_ns = plan.kernel_ns[i]});
  }
  use.costs = pipeline::after_first_pass(use.costs, plan.is_pinned);
  if (Status fits = check_plan(use, plan, source); !fits) return forward_error(std::move(fits));
  return use;
}

std::vector<pipeline::ArenaUse> arena_uses(const memory::ActivationLayout& layout) {
  std::vector<pipeline::ArenaUse> uses;
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const memory::TensorUsage& tensor = layout.tensors[i];
    uses.push_back({layout.plan.offset_bytes[i], tensor.size_bytes, tensor.first_operation,
                    tensor.last_operation});
  }
  return uses;
}

void add_arena_overlay(WindowUse& use, const WeightSource& source,
                       const memory::ActivationLayout& layout) {
  std::vector<pipeline::UnitToPlace> units;
  for (size_t i = 0; i < use.units.size(); ++i) {
    units.push_back({use.pieces[i].layer, use.units[i].length_bytes, use.units[i].is_pinned});
  }
  WindowUse placed{.rings = use.rings};
  for (const pipeline::PlacedUnit& it : pipeline::place_units(
           units, use.rings.host_bytes, arena_uses(layout), layout.plan.total_bytes)) {
    Piece piece = use.pieces[it.first];
    UnitBytes unit = use.units[it.first];
    UnitCosts costs = use.costs[it.first];
    for (uint32_t tile = it.first + 1; tile < it.end; ++tile) {
      piece.end_channel = use.pieces[tile].end_channel;
      costs.read_ns += use.costs[tile].read_ns;
      costs.kernel_ns += use.costs[tile].kernel_ns;
    }
    if (it.overlay) {
      unit = unit_bytes(source.range(piece));
      costs.size_bytes = unit.length_bytes;
    }
    unit.overlay = costs.overlay = it.overlay;
    placed.pieces.push_back(piece);
    placed.units.push_back(unit);
    placed.costs.push_back(costs);
  }
  use = std::move(placed);
}

uint64_t overlay_bytes(const WindowUse& use) {
  uint64_t sum_bytes = 0;
  for (const UnitBytes& it : use.units) sum_bytes += it.overlay ? it.length_bytes : 0;
  return sum_bytes;
}

uint64_t operations(const Layer& layer) {
  if (const auto* it = std::get_if<Convolutional>(&layer.operation)) {
    return 2 * layer.weights() / std::max(it->filters, 1u) * layer.output.elements();
  }
  return 2 * layer.weights() + layer.output.elements();
}

uint64_t operations(const network::Network& network) {
  uint64_t sum = 0;
  for (const network::Layer& layer : network.layers) sum += operations(layer);
  return sum;
}

std::span<const Piece> WindowUse::pieces_of(size_t unit) const {
  if (!blocks) return std::span(pieces).subspan(unit, 1);
  const uint32_t first = unit == 0 ? 0 : blocks->ends[unit - 1];
  return std::span(pieces).subspan(first, blocks->ends[unit] - first);
}

Result<WindowUse> use_window(const Network& network, const WeightSource& source,
                             const WindowRequest& request) {
  if (request.blocks) return use_blocks(source, costs_of_layers(network, source, request), request);
  CutNetwork it = cut_for_window(network, source, request);
  WindowUse use{.pieces = std::move(it.pieces), .units = it.units, .costs = it.costs};
  const bool is_gpu = request.device == DeviceKind::cuda;
  if (request.pipeline == Pipeline::preload) return use_for_preload(std::move(use), request);
  const Rings smallest = it.smallest_rings(request.pipeline);
  use.rings = request.rings.value_or(smallest);
  if (request.rings || request.window_bytes == 0) {
    if (is_gpu) round_gpu_ring(use.rings, smallest.device_bytes, UINT64_MAX);
    return use;
  }
  if (request.window_bytes < smallest.bytes()) return too_small(request, smallest.bytes());
  const bool has_own_pace =
      request.pipeline == Pipeline::asynchronous || request.pipeline == Pipeline::two_stage;
  if (!has_own_pace) {
    if (is_gpu) {
      round_gpu_ring(use.rings, smallest.device_bytes, request.window_bytes - smallest.bytes());
    }
    return use;
  }
  const auto plan = pipeline::plan_window(request.pipeline, it.costs, request.window_bytes,
                                          pipeline::for_layers({}, network.layers.size()));
  if (!plan) return tl::make_unexpected(plan.error());
  use.rings = plan->rings;
  for (size_t i = 0; i < use.units.size(); ++i) use.units[i].is_pinned = plan->is_pinned[i];
  use.costs = pipeline::after_first_pass(it.costs, plan->is_pinned);
  if (is_gpu) {
    const Rings needed =
        pipeline::smallest_rings(request.pipeline, pipeline::work_units(it.costs, plan->is_pinned));
    round_gpu_ring(use.rings, needed.device_bytes, request.window_bytes - plan->window_bytes());
  }
  return use;
}

}  // namespace weightpager::infer
