#include "runtime/infer/block_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::infer {
namespace {

using budget::BlockedNetwork;
using budget::BlockEnds;
using budget::BlockPlan;
using network::FileRange;
using network::WeightSource;
using pipeline::Pipeline;
using pipeline::UnitBytes;
using pipeline::UnitCosts;

/// By layer; without weights a range is empty.
Result<std::vector<FileRange>> ranges_in_order(const WeightSource& source) {
  std::vector<FileRange> ranges;
  uint64_t end_bytes = 0;
  for (uint32_t layer = 0; layer < source.layers(); ++layer) {
    ranges.push_back(source.range(source.whole(layer)));
    const FileRange& it = ranges.back();
    if (it.length_bytes == 0) continue;
    if (it.offset_bytes + it.needed_bytes < end_bytes) {
      return fail(fmt::format("{}: layer {} lies before the layers in front of it, so no block is "
                              "one read",
                              source.path(), layer),
                  "pack it again: weightpager model pack NET.cfg NET.weights -o FILE");
    }
    end_bytes = it.offset_bytes + it.needed_bytes;
  }
  return ranges;
}

Status check_pipeline(const WindowRequest& request) {
  const bool has_rings =
      request.pipeline == Pipeline::two_stage || request.pipeline == Pipeline::asynchronous;
  if (!has_rings) {
    return fail(fmt::format("the pipeline {} has no blocks", name(request.pipeline)),
                "blocks run in the pipeline 2s, or, with a copy of each, in async");
  }
  WP_ASSERT(request.blocks->assembly == Assembly::by_reference ||
            (request.device == DeviceKind::cpu && request.pipeline == Pipeline::two_stage));
  return {};
}

/// The blocks that were asked for, or the best ones.
Result<BlockPlan> choose_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                                const BlockEnds& asked) {
  if (asked.empty()) {
    const uint64_t least_bytes = budget::least_budget_bytes(network);
    return budget::plan_blocks(network, budget_bytes == 0 ? least_bytes : budget_bytes);
  }
  WP_ASSERT(asked.back() == network.layers.size() && std::is_sorted(asked.begin(), asked.end()));
  BlockPlan plan = {.ends = asked,
                    .delay_ns = budget::delay_ns(network, asked),
                    .peak_bytes = budget::peak_bytes(network, asked),
                    .is_best = false};
  if (budget_bytes != 0 && plan.peak_bytes > budget_bytes) {
    return fail(fmt::format("a window of {} is too small for these blocks: two of them take {}",
                            format_size(budget_bytes), format_size(plan.peak_bytes)),
                "give a larger window, or more blocks");
  }
  return plan;
}

/// One read for all of the block's layers. `first` and `end`: the block's layers.
UnitBytes bytes_of_block(std::span<const FileRange> ranges, uint32_t first, uint32_t end) {
  UnitBytes block;
  for (const FileRange& it : ranges.subspan(first, end - first)) {
    if (it.length_bytes == 0) continue;
    if (block.length_bytes == 0) block.offset_bytes = it.offset_bytes;
    block.length_bytes = it.offset_bytes + it.length_bytes - block.offset_bytes;
    block.needed_bytes = it.offset_bytes + it.needed_bytes - block.offset_bytes;
  }
  return block;
}

/// The most that two neighbouring blocks take.
uint64_t largest_pair_bytes(const std::vector<UnitBytes>& blocks) {
  uint64_t largest = blocks.front().length_bytes;
  for (size_t i = 1; i < blocks.size(); ++i) {
    largest = std::max(largest, blocks[i - 1].length_bytes + blocks[i].length_bytes);
  }
  return largest;
}

BlockedNetwork blocked_network(std::span<const FileRange> ranges,
                               std::span<const UnitCosts> layer_costs,
                               const budget::PerBlock& per_block) {
  BlockedNetwork network = {.layers = {}, .per_block = per_block};
  size_t before = SIZE_MAX;  // the layer with weights in front of this one
  for (size_t i = 0; i < ranges.size(); ++i) {
    const FileRange& it = ranges[i];
    network.layers.push_back({.size_bytes = it.length_bytes,
                              .read_ns = layer_costs[i].read_ns,
                              .kernel_ns = layer_costs[i].kernel_ns});
    if (it.length_bytes == 0) continue;
    if (before != SIZE_MAX) {
      uint64_t& size_bytes = network.layers[before].size_bytes;
      size_bytes = std::max(size_bytes, it.offset_bytes - ranges[before].offset_bytes);
    }
    before = i;
  }
  return network;
}

/// A block is one read, and a read is less than 4 GiB.
Status check_sizes(const WindowUse& use) {
  for (size_t i = 0; i < use.units.size(); ++i) {
    if (use.units[i].length_bytes <= UINT32_MAX) continue;
    const auto layers = use.pieces_of(i);
    return fail(fmt::format("layers {} to {} would be a block of {}: a block has less than 4 GiB",
                            layers.front().layer, layers.back().layer,
                            format_size(use.units[i].length_bytes)),
                "give a window of less than 4 GiB for each ring");
  }
  return {};
}

}  // namespace

Result<BlockedNetwork> blocked_network(const WeightSource& source,
                                       std::span<const UnitCosts> layer_costs,
                                       const budget::PerBlock& per_block) {
  const auto ranges = ranges_in_order(source);
  if (!ranges) return tl::make_unexpected(ranges.error());
  return blocked_network(*ranges, layer_costs, per_block);
}

Result<WindowUse> use_blocks(const WeightSource& source, std::span<const UnitCosts> layer_costs,
                             const WindowRequest& request) {
  if (Status can_run = check_pipeline(request); !can_run) return forward_error(std::move(can_run));
  const auto ranges = ranges_in_order(source);
  if (!ranges) return tl::make_unexpected(ranges.error());
  const BlockedNetwork network = blocked_network(*ranges, layer_costs, request.blocks->per_block);
  const uint64_t rings = request.pipeline == Pipeline::asynchronous ? 2 : 1;
  auto plan = choose_blocks(network, request.window_bytes / rings, request.blocks->ends);
  if (!plan) return forward_error(std::move(plan));
  WindowUse use;
  for (uint32_t layer = 0; layer < source.layers(); ++layer)
    use.pieces.push_back(source.whole(layer));
  const std::vector<budget::LayerCosts> costs = budget::block_costs(network, plan->ends);
  uint32_t first = 0;
  for (size_t i = 0; i < plan->ends.size(); ++i) {
    use.units.push_back(bytes_of_block(*ranges, first, plan->ends[i]));
    use.costs.push_back({.size_bytes = use.units.back().length_bytes,
                         .read_ns = costs[i].read_ns,
                         .kernel_ns = costs[i].kernel_ns});
    first = plan->ends[i];
  }
  plan->peak_bytes = largest_pair_bytes(use.units);
  use.rings.host_bytes = plan->peak_bytes;
  if (rings == 2) use.rings.device_bytes = plan->peak_bytes;
  // There is nothing to swap in one block.
  if (use.units.size() == 1 && rings == 1) {
    use.units.front().is_pinned = true;
    use.costs = pipeline::after_first_pass(use.costs, {true});
    use.rings = {};
    plan->delay_ns = use.costs.front().kernel_ns;
  }
  use.blocks = std::move(*plan);
  if (Status fits = check_sizes(use); !fits) return forward_error(std::move(fits));
  return use;
}

}  // namespace weightpager::infer
