// See blocks.h.
#include "runtime/budget/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::budget {
namespace {

// The least numbers of groups: in a network that has so many layers, and in a budget. Larger ones
// make delays better, and planning longer.
constexpr uint64_t groups_in_network_min = 256;
constexpr uint64_t groups_in_budget_min = 8;

// A planner that would keep more states gives up: 128 MiB of states; with groups, at most so many
// per group.
constexpr size_t states_max = 4 << 20;
constexpr size_t states_per_group_max = 256;
// With groups, two states count as one if they differ by less than this part of a block's mean
// time. This is the first try; later ones are coarser.
constexpr uint64_t grains_in_block = 1024;

// The channel and the processor after some blocks.
struct Progress {
  // The block before the last has left and the last one is in, so the next may be read.
  uint64_t channel_free_ns = 0;
  uint64_t computed_ns = 0;

  static Progress first(const LayerCosts& block) {
    return {.channel_free_ns = block.read_ns, .computed_ns = block.read_ns + block.kernel_ns};
  }

  Progress then(const LayerCosts& block, uint64_t release_of_last_ns) const {
    const uint64_t both_ns = std::max(channel_free_ns + block.read_ns, computed_ns);
    return {.channel_free_ns = both_ns + release_of_last_ns,
            .computed_ns = both_ns + block.kernel_ns};
  }
};

// The first `end` layers in blocks, the last of which begins at `begin`.
struct State {
  uint32_t begin = 0;
  uint32_t blocks = 1;
  // The index among the states that end at `begin`; without meaning for the first block.
  uint32_t before = 0;
  Progress progress;
};

// The states that end at one layer, without those that another one beats or nearly beats: both of
// its times are at most a grain later. States are added with falling `begin`, so an earlier one is
// at least as good in that, and only the two times are compared.
class Front {
 public:
  explicit Front(uint64_t grain_ns) : grain_ns_(grain_ns) {}

  void clear() {
    edge_.clear();
    kept_.clear();
  }

  void offer(const State& state) {
    const Progress& it = state.progress;
    const auto is_earlier = [](const Progress& a, uint64_t channel_free_ns) {
      return a.channel_free_ns < channel_free_ns;
    };
    // By rising channel_free_ns and falling computed_ns.
    auto at = std::lower_bound(edge_.begin(), edge_.end(), it.channel_free_ns, is_earlier);
    auto near = at;
    while (near != edge_.end() && near->channel_free_ns <= it.channel_free_ns + grain_ns_) ++near;
    if (near != edge_.begin() && (near - 1)->computed_ns <= it.computed_ns + grain_ns_) return;
    auto end = at;
    while (end != edge_.end() && end->computed_ns >= it.computed_ns) ++end;
    edge_.insert(edge_.erase(at, end), it);
    kept_.push_back(state);
  }

  const std::vector<State>& kept() const { return kept_; }

 private:
  uint64_t grain_ns_;
  std::vector<Progress> edge_;
  std::vector<State> kept_;
};

// How much a planner may take, and how finely it tells states apart: a grain of 0 is exact.
struct Effort {
  const TimeLimit& limit;
  size_t states_max = budget::states_max;
  uint64_t grain_ns = 0;
};

// The best of all partitions within a budget whose delay is at most a bound. States that cannot
// keep to the bound any more are not followed.
class Planner {
 public:
  Planner(const BlockSums& sums, uint64_t budget_bytes, uint64_t delay_max_ns, const Effort& effort)
      : sums_(sums),
        budget_bytes_(budget_bytes),
        delay_max_ns_(delay_max_ns),
        effort_(effort),
        front_(effort.grain_ns),
        states_(sums.layers() + 1) {}

  // Nothing if there are no such blocks, or if the planner has given up.
  std::optional<BlockEnds> run() {
    for (uint32_t end = 1; end <= sums_.layers(); ++end) {
      front_.clear();
      has_given_up_ = effort_.limit.is_over() || !end_blocks_at(end);
      if (has_given_up_) return std::nullopt;
      states_[end].assign(front_.kept().begin(), front_.kept().end());
      states_before_ += states_[end].size();
    }
    return best_ends();
  }

  bool has_given_up() const { return has_given_up_; }

 private:
  // Layers that are not computed yet take their time. So do layers that are not read yet, in as
  // many blocks as it takes if each block has the budget for itself.
  bool may_be_in_time(const Progress& progress, uint32_t end) const {
    const LayerCosts rest = sums_.layers_between(end, sums_.layers());
    if (progress.computed_ns + rest.kernel_ns > delay_max_ns_) return false;
    if (end == sums_.layers()) return true;
    return progress.channel_free_ns + rest.read_ns + sums_.starts_ns(rest, budget_bytes_) <=
           delay_max_ns_;
  }

  void offer(uint32_t end, const State& state) {
    if (may_be_in_time(state.progress, end)) front_.offer(state);
  }

  // Returns false if there would be too many states.
  bool end_blocks_at(uint32_t end) {
    for (uint32_t begin = end - 1; sums_.bytes(begin, end) <= budget_bytes_; --begin) {
      const LayerCosts block = sums_.block(begin, end);
      if (begin == 0) {
        offer(end, {.progress = Progress::first(block)});
        return true;
      }
      const std::vector<State>& before = states_[begin];
      for (uint32_t i = 0; i < before.size(); ++i) {
        if (sums_.bytes(before[i].begin, end) > budget_bytes_) continue;
        const uint64_t release_ns = sums_.block(before[i].begin, begin).release_ns;
        offer(end, {.begin = begin,
                    .blocks = before[i].blocks + 1,
                    .before = i,
                    .progress = before[i].progress.then(block, release_ns)});
      }
      if (states_before_ + front_.kept().size() > effort_.states_max) return false;
    }
    return true;
  }

  std::optional<BlockEnds> best_ends() const {
    const std::vector<State>& last = states_[sums_.layers()];
    if (last.empty()) return std::nullopt;
    const auto worth = [](const State& state) {
      return std::tuple(state.progress.computed_ns, state.blocks);
    };
    const State* state =
        &*std::min_element(last.begin(), last.end(),
                           [&](const State& a, const State& b) { return worth(a) < worth(b); });
    BlockEnds ends = {sums_.layers()};
    while (state->begin > 0) {
      ends.push_back(state->begin);
      state = &states_[state->begin][state->before];
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  const BlockSums& sums_;
  uint64_t budget_bytes_;
  uint64_t delay_max_ns_;
  Effort effort_;
  Front front_;                             // of states that end at the current layer
  std::vector<std::vector<State>> states_;  // by the layer after the last block
  size_t states_before_ = 0;
  bool has_given_up_ = false;
};

BlockEnds one_layer_each(const BlockedNetwork& network) {
  BlockEnds ends(network.layers.size());
  std::iota(ends.begin(), ends.end(), 1);
  return ends;
}

// Each group has as many layers as fit `group_bytes_max`; a larger layer is a group of its own.
BlockEnds groups_of(const BlockSums& sums, uint64_t group_bytes_max) {
  BlockEnds ends;
  uint32_t begin = 0;
  for (uint32_t end = 1; end <= sums.layers(); ++end) {
    const bool is_full = end < sums.layers() && sums.bytes(begin, end + 1) > group_bytes_max;
    if (!is_full && end < sums.layers()) continue;
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

BlockedNetwork joined(const BlockSums& sums, const BlockEnds& groups, const PerBlock& per_block) {
  BlockedNetwork network{.layers = {}, .per_block = per_block};
  uint32_t begin = 0;
  for (const uint32_t end : groups) {
    network.layers.push_back(sums.layers_between(begin, end));
    begin = end;
  }
  return network;
}

}  // namespace

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
  Progress progress = Progress::first(blocks.front());
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
  return peak_bytes(network, one_layer_each(network));
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

namespace {

BlockPlan plan_of(const BlockedNetwork& network, BlockEnds ends) {
  BlockPlan plan = {.ends = std::move(ends)};
  plan.delay_ns = delay_ns(network, plan.ends);
  plan.peak_bytes = peak_bytes(network, plan.ends);
  return plan;
}

// For a network of groups. Where there are too many states, they are told apart less and less
// finely, at last not at all. Then one state for each layer is left, which is enough for some
// blocks.
BlockEnds nearly_best_ends(const BlockedNetwork& network, uint64_t budget_bytes) {
  const BlockSums sums(network);
  const uint64_t blocks = std::min<uint64_t>(
      sums.layers(), 1 + sums.all().size_bytes / std::max<uint64_t>(budget_bytes / 2, 1));
  const uint64_t busy_ns = std::max(sums.all().kernel_ns, sums.all().read_ns);
  const TimeLimit no_limit;
  Effort effort = {.limit = no_limit,
                   .states_max = std::min(states_max, size_t{sums.layers()} * states_per_group_max),
                   .grain_ns = 1 + busy_ns / blocks / grains_in_block};
  for (;; effort.grain_ns *= 2) {
    auto ends = Planner(sums, budget_bytes, UINT64_MAX, effort).run();
    if (ends) return std::move(*ends);
  }
}

}  // namespace

std::optional<BlockPlan> plan_blocks_within(const BlockedNetwork& network, uint64_t budget_bytes,
                                            uint64_t delay_max_ns, const TimeLimit& limit) {
  const BlockSums sums(network);
  auto ends = Planner(sums, budget_bytes, delay_max_ns, {.limit = limit}).run();
  if (!ends) return std::nullopt;
  return plan_of(network, std::move(*ends));
}

// Most networks have blocks that take little longer than computing alone. With a tight bound these
// are found soon, and the bound does not cut off anything better. Otherwise the bound is raised
// until blocks of one layer keep to it.
Result<BlockPlan> plan_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                              const TimeLimit& limit) {
  const BlockEnds ones = one_layer_each(network);
  const uint64_t least_bytes = peak_bytes(network, ones);
  if (budget_bytes < least_bytes) {
    return fail(
        fmt::format("{} ({} bytes) are too few for blocks of these layers: the two largest "
                    "that follow each other take {} ({} bytes)",
                    format_size(budget_bytes), budget_bytes, format_size(least_bytes), least_bytes),
        "give a larger --budget, or plan windows with layers in tiles (--by window)");
  }
  const BlockSums sums(network);
  const uint64_t computing_ns = sums.all().kernel_ns;
  const uint64_t delay_max_ns = delay_ns(network, ones);
  for (uint64_t slack_ns = (delay_max_ns - computing_ns) / 64 + 1;; slack_ns *= 4) {
    const uint64_t bound_ns = std::min(computing_ns + slack_ns, delay_max_ns);
    Planner planner(sums, budget_bytes, bound_ns, {.limit = limit});
    auto ends = planner.run();
    if (ends) return plan_of(network, std::move(*ends));
    if (planner.has_given_up()) return plan_blocks_of_groups(network, budget_bytes);
    WP_ASSERT(bound_ns < delay_max_ns);
  }
}

// Beside a layer that takes nearly the whole budget there is no room for a group. Then groups are
// made smaller, down to single layers, for which the budget is enough.
BlockPlan plan_blocks_of_groups(const BlockedNetwork& network, uint64_t budget_bytes) {
  const BlockSums sums(network);
  uint64_t group_bytes_max =
      std::min(budget_bytes / groups_in_budget_min, sums.all().size_bytes / groups_in_network_min);
  for (;; group_bytes_max /= 2) {
    const BlockEnds groups =
        group_bytes_max > 0 ? groups_of(sums, group_bytes_max) : one_layer_each(network);
    const BlockedNetwork coarse = joined(sums, groups, network.per_block);
    if (least_budget_bytes(coarse) > budget_bytes) {
      WP_ASSERT(group_bytes_max > 0);
      continue;
    }
    BlockEnds ends = nearly_best_ends(coarse, budget_bytes);
    for (uint32_t& end : ends) end = groups[end - 1];
    BlockPlan plan = plan_of(network, std::move(ends));
    plan.is_best = false;
    return plan;
  }
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
