// What blocks cost, and the least memory that they need: see blocks.h.
#include "runtime/budget/blocks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/budget/block_progress.h"

namespace weightpager::budget {

BlockEnds one_layer_each(size_t layers) {
  BlockEnds ends(layers);
  std::iota(ends.begin(), ends.end(), 1);
  return ends;
}

BlockSums::BlockSums(const BlockedNetwork& network) : per_block_(network.per_block), sums_(1) {
  for (const LayerCosts& layer : network.layers) {
    LayerCosts sum = sums_.back();
    sum.kernel_ns += layer.kernel_ns;
    // Without bytes there is nothing to read or to let go, whatever its costs say.
    if (layer.size_bytes > 0) {
      sum.size_bytes += layer.size_bytes;
      sum.read_ns += layer.read_ns;
      sum.release_ns += layer.release_ns;
    }
    sums_.push_back(sum);
  }
}

LayerCosts BlockSums::layers_between(uint32_t begin, uint32_t end) const {
  const LayerCosts &from = sums_[begin], &to = sums_[end];
  return {.size_bytes = to.size_bytes - from.size_bytes,
          .read_ns = to.read_ns - from.read_ns,
          .kernel_ns = to.kernel_ns - from.kernel_ns,
          .release_ns = to.release_ns - from.release_ns};
}

LayerCosts BlockSums::block(uint32_t begin, uint32_t end) const {
  LayerCosts costs = layers_between(begin, end);
  if (costs.size_bytes == 0) return costs;
  costs.read_ns += per_block_.read_ns;
  costs.release_ns += per_block_.release_ns;
  return costs;
}

uint64_t BlockSums::starts_ns(const LayerCosts& layers, uint64_t budget_bytes) const {
  if (layers.size_bytes == 0) return 0;
  return (1 + (layers.size_bytes - 1) / budget_bytes) * per_block_.read_ns;
}

std::vector<LayerCosts> BlockSums::blocks(std::span<const uint32_t> ends) const {
  WP_ASSERT(!ends.empty() && ends.back() == layers());
  std::vector<LayerCosts> blocks;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    WP_ASSERT(end > begin);
    blocks.push_back(block(begin, end));
    begin = end;
  }
  return blocks;
}

std::vector<LayerCosts> block_costs(const BlockedNetwork& network, std::span<const uint32_t> ends) {
  return BlockSums(network).blocks(ends);
}

uint64_t delay_ns(const BlockedNetwork& network, std::span<const uint32_t> ends) {
  const std::vector<LayerCosts> blocks = block_costs(network, ends);
  BlockProgress progress = BlockProgress::first(blocks.front());
  for (size_t i = 1; i < blocks.size(); ++i) {
    progress = progress.then(blocks[i], blocks[i - 1].release_ns);
  }
  return progress.computed_ns;
}

uint64_t peak_bytes(const BlockedNetwork& network, std::span<const uint32_t> ends) {
  return peak_bytes(block_costs(network, ends));
}

uint64_t peak_bytes(std::span<const LayerCosts> blocks) {
  uint64_t peak_bytes = blocks.front().size_bytes;
  for (size_t i = 1; i < blocks.size(); ++i) {
    peak_bytes = std::max(peak_bytes, blocks[i - 1].size_bytes + blocks[i].size_bytes);
  }
  return peak_bytes;
}

// However layers are joined, two that follow each other are in one block or in neighbouring ones.
uint64_t least_budget_bytes(const BlockedNetwork& network) {
  return peak_bytes(network, one_layer_each(network.layers.size()));
}

uint64_t least_budget_bytes(const BlockedNetwork& network, uint32_t blocks) {
  const BlockSums sums(network);
  const uint32_t layers = sums.layers();
  WP_ASSERT(blocks > 0 && blocks <= layers);
  if (blocks <= 2) return sums.all().size_bytes;  // both are there at once
  // By the last block's begin and end: the least peak of so many blocks.
  using Peaks = std::vector<std::vector<uint64_t>>;
  Peaks peaks(layers, std::vector<uint64_t>(layers + 1, UINT64_MAX));
  for (uint32_t end = 1; end <= layers; ++end) peaks[0][end] = sums.bytes(0, end);
  for (uint32_t count = 2; count <= blocks; ++count) {
    Peaks next(layers, std::vector<uint64_t>(layers + 1, UINT64_MAX));
    for (uint32_t middle = 1; middle < layers; ++middle) {
      // By `begin`: the least peak of the blocks before, over this begin and all later ones. With a
      // later begin the last two blocks are together no larger. So the peak rises with `begin`, and
      // the bytes of the two blocks fall.
      std::vector<uint64_t> least_from(middle + 1, UINT64_MAX);
      for (uint32_t begin = middle; begin-- > 0;) {
        least_from[begin] = std::min(peaks[begin][middle], least_from[begin + 1]);
      }
      uint32_t begin = 0;
      for (uint32_t end = middle + 1; end <= layers; ++end) {
        const auto peak = [&](uint32_t at) {
          return std::max(least_from[at], sums.bytes(at, end));
        };
        // Where the two cross. That is no earlier for a later end.
        while (begin + 1 < middle && least_from[begin] < sums.bytes(begin, end)) ++begin;
        next[middle][end] = std::min(peak(begin), begin > 0 ? peak(begin - 1) : UINT64_MAX);
      }
    }
    peaks = std::move(next);
  }
  uint64_t least_bytes = UINT64_MAX;
  for (const std::vector<uint64_t>& by_end : peaks)
    least_bytes = std::min(least_bytes, by_end.back());
  return least_bytes;
}

// Computing waits for the first layer. And everything is read, in as many blocks as it takes if
// each block has the budget for itself.
uint64_t delay_bound_ns(const BlockedNetwork& network, uint64_t budget_bytes) {
  const BlockSums sums(network);
  const LayerCosts all = sums.all();
  return std::max(sums.block(0, 1).read_ns + all.kernel_ns,
                  all.read_ns + sums.starts_ns(all, budget_bytes));
}

}  // namespace weightpager::budget
