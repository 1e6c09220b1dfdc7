// The search for blocks with the least delay: see blocks.h.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/budget/block_progress.h"
#include "runtime/budget/blocks.h"

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
// Where the number of blocks is given, there are as many times more states.
constexpr uint64_t grains_in_one_of_many = 4;

// The first `end` layers in blocks, the last of which begins at `begin`.
struct State {
  uint32_t begin = 0;
  uint32_t blocks = 1;
  // The index among the states that end at `begin`; without meaning for the first block.
  uint32_t before = 0;
  BlockProgress progress;
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
    const BlockProgress& it = state.progress;
    const auto is_earlier = [](const BlockProgress& a, uint64_t channel_free_ns) {
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
  std::vector<BlockProgress> edge_;
  std::vector<State> kept_;
};

// Which blocks are wanted.
struct Wanted {
  uint64_t budget_bytes = 0;
  uint64_t delay_max_ns = UINT64_MAX;
  uint32_t blocks = any_number_of_blocks;
};

// How much a planner may take, and how finely it tells states apart: a grain of 0 is exact.
struct Effort {
  const TimeLimit& limit;
  size_t states_max = budget::states_max;
  uint64_t grain_ns = 0;
};

// The best of all partitions within a budget whose delay is at most a bound. States that cannot
// keep to the bound any more are not followed. With a given number of blocks, states are compared
// only with those of as many blocks so far.
class Planner {
 public:
  Planner(const BlockSums& sums, const Wanted& wanted, const Effort& effort)
      : sums_(sums),
        wanted_(wanted),
        effort_(effort),
        fronts_(std::max(wanted.blocks, 1U), Front(effort.grain_ns)),
        states_(sums.layers() + 1) {}

  // Nothing if there are no such blocks, or if the planner has given up.
  std::optional<BlockEnds> run() {
    for (uint32_t end = 1; end <= sums_.layers(); ++end) {
      for (Front& front : fronts_) front.clear();
      has_given_up_ = effort_.limit.is_over() || !end_blocks_at(end);
      if (has_given_up_) return std::nullopt;
      for (const Front& front : fronts_) {
        states_[end].insert(states_[end].end(), front.kept().begin(), front.kept().end());
      }
      states_before_ += states_[end].size();
    }
    return best_ends();
  }

  bool has_given_up() const { return has_given_up_; }

 private:
  bool is_number_given() const { return wanted_.blocks != any_number_of_blocks; }

  // Whether the layers from `end` on can be cut so that there are as many blocks as wanted.
  bool may_have_the_number(uint32_t blocks, uint32_t end) const {
    if (!is_number_given()) return true;
    const uint32_t layers_left = sums_.layers() - end;
    const uint32_t blocks_least = blocks + (layers_left > 0 ? 1 : 0);
    return blocks_least <= wanted_.blocks && wanted_.blocks <= blocks + layers_left;
  }

  // Layers that are not computed yet take their time. So do layers that are not read yet, in as
  // many blocks as it takes if each block has the budget for itself.
  bool may_be_in_time(const BlockProgress& progress, uint32_t end) const {
    const LayerCosts rest = sums_.layers_between(end, sums_.layers());
    if (progress.computed_ns + rest.kernel_ns > wanted_.delay_max_ns) return false;
    if (end == sums_.layers()) return true;
    return progress.channel_free_ns + rest.read_ns + sums_.starts_ns(rest, wanted_.budget_bytes) <=
           wanted_.delay_max_ns;
  }

  void offer(uint32_t end, const State& state) {
    if (!may_have_the_number(state.blocks, end)) return;
    if (!may_be_in_time(state.progress, end)) return;
    fronts_[is_number_given() ? state.blocks - 1 : 0].offer(state);
  }

  size_t states_kept() const {
    size_t kept = states_before_;
    for (const Front& front : fronts_) kept += front.kept().size();
    return kept;
  }

  // Returns false if there would be too many states.
  bool end_blocks_at(uint32_t end) {
    for (uint32_t begin = end - 1; sums_.bytes(begin, end) <= wanted_.budget_bytes; --begin) {
      const LayerCosts block = sums_.block(begin, end);
      if (begin == 0) {
        offer(end, {.progress = BlockProgress::first(block)});
        return true;
      }
      const std::vector<State>& before = states_[begin];
      for (uint32_t i = 0; i < before.size(); ++i) {
        if (sums_.bytes(before[i].begin, end) > wanted_.budget_bytes) continue;
        const uint64_t release_ns = sums_.block(before[i].begin, begin).release_ns;
        offer(end, {.begin = begin,
                    .blocks = before[i].blocks + 1,
                    .before = i,
                    .progress = before[i].progress.then(block, release_ns)});
      }
      if (states_kept() > effort_.states_max) return false;
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
  Wanted wanted_;
  Effort effort_;
  std::vector<Front> fronts_;               // of states that end at the current layer
  std::vector<std::vector<State>> states_;  // by the layer after the last block
  size_t states_before_ = 0;
  bool has_given_up_ = false;
};

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

namespace {

BlockPlan plan_of(const BlockedNetwork& network, BlockEnds ends) {
  BlockPlan plan = {.ends = std::move(ends)};
  plan.delay_ns = delay_ns(network, plan.ends);
  plan.peak_bytes = peak_bytes(network, plan.ends);
  return plan;
}

// Where there are too many states, they are told apart less and less finely, at last not at all.
// Then one state for each layer (and number of blocks) is left, the one with the smallest last
// block, which is enough for some blocks.
BlockEnds nearly_best_ends(const BlockedNetwork& network, const Wanted& wanted) {
  const BlockSums sums(network);
  const uint64_t blocks = std::min<uint64_t>(
      sums.layers(), 1 + sums.all().size_bytes / std::max<uint64_t>(wanted.budget_bytes / 2, 1));
  const uint64_t busy_ns = std::max(sums.all().kernel_ns, sums.all().read_ns);
  const TimeLimit no_limit;
  const bool is_any = wanted.blocks == any_number_of_blocks;
  Effort effort = {
      .limit = no_limit,
      .states_max = std::min(states_max, size_t{sums.layers()} * states_per_group_max),
      .grain_ns = 1 + busy_ns / blocks / (is_any ? grains_in_block : grains_in_one_of_many)};
  for (;; effort.grain_ns *= 2) {
    auto ends = Planner(sums, wanted, effort).run();
    if (ends) return std::move(*ends);
  }
}

// The best blocks take no longer: blocks of one layer each are among them, if any number will do;
// otherwise everything takes place one after the other.
uint64_t longest_delay_ns(const BlockedNetwork& network, uint32_t blocks) {
  if (blocks == any_number_of_blocks) {
    return delay_ns(network, one_layer_each(network.layers.size()));
  }
  const LayerCosts all = BlockSums(network).all();
  return all.read_ns + all.kernel_ns + all.release_ns +
         blocks * (network.per_block.read_ns + network.per_block.release_ns);
}

}  // namespace

std::optional<BlockPlan> plan_blocks_within(const BlockedNetwork& network, uint64_t budget_bytes,
                                            uint64_t delay_max_ns, const TimeLimit& limit,
                                            uint32_t blocks) {
  const BlockSums sums(network);
  auto ends = Planner(sums, {budget_bytes, delay_max_ns, blocks}, {.limit = limit}).run();
  if (!ends) return std::nullopt;
  return plan_of(network, std::move(*ends));
}

Status check_block_budget(const BlockedNetwork& network, uint64_t budget_bytes, uint32_t blocks) {
  const bool is_any = blocks == any_number_of_blocks;
  const uint64_t least_bytes =
      is_any ? least_budget_bytes(network) : least_budget_bytes(network, blocks);
  if (budget_bytes >= least_bytes) return {};
  const std::string budget = fmt::format("{} ({} bytes)", format_size(budget_bytes), budget_bytes);
  const std::string least = fmt::format("{} ({} bytes)", format_size(least_bytes), least_bytes);
  if (is_any) {
    return fail(fmt::format("{} are too few for blocks of these layers: the two largest that "
                            "follow each other take {}",
                            budget, least),
                "give a larger --budget, or plan windows with layers in tiles (--by window)");
  }
  return fail(fmt::format("{} are too few for {} blocks of these layers: the least budget for so "
                          "many is {}",
                          budget, blocks, least),
              "give a larger --budget, or more --blocks");
}

// Most networks have blocks that take little longer than computing alone. With a tight bound these
// are found soon, and the bound does not cut off anything better. Otherwise the bound is raised
// until all blocks keep to it.
Result<BlockPlan> plan_blocks(const BlockedNetwork& network, uint64_t budget_bytes,
                              const TimeLimit& limit, uint32_t blocks) {
  if (Status enough = check_block_budget(network, budget_bytes, blocks); !enough)
    return forward_error(std::move(enough));
  const BlockSums sums(network);
  const uint64_t computing_ns = sums.all().kernel_ns;
  const uint64_t delay_max_ns = longest_delay_ns(network, blocks);
  for (uint64_t slack_ns = (delay_max_ns - computing_ns) / 64 + 1;; slack_ns *= 4) {
    const uint64_t bound_ns = std::min(computing_ns + slack_ns, delay_max_ns);
    Planner planner(sums, {budget_bytes, bound_ns, blocks}, {.limit = limit});
    auto ends = planner.run();
    if (ends) return plan_of(network, std::move(*ends));
    if (planner.has_given_up()) return plan_blocks_coarsely(network, budget_bytes, blocks);
    WP_ASSERT(bound_ns < delay_max_ns);
  }
}

// Beside a layer that takes nearly the whole budget there is no room for a group. Then groups are
// made smaller, down to single layers, for which the budget is enough. A given number of blocks may
// be more than there are groups, so then there are none.
BlockPlan plan_blocks_coarsely(const BlockedNetwork& network, uint64_t budget_bytes,
                               uint32_t blocks) {
  const BlockSums sums(network);
  const auto plan_with = [&](BlockEnds ends) {
    BlockPlan plan = plan_of(network, std::move(ends));
    plan.is_best = false;
    return plan;
  };
  if (blocks != any_number_of_blocks) {
    return plan_with(nearly_best_ends(network, {.budget_bytes = budget_bytes, .blocks = blocks}));
  }
  uint64_t group_bytes_max =
      std::min(budget_bytes / groups_in_budget_min, sums.all().size_bytes / groups_in_network_min);
  for (;; group_bytes_max /= 2) {
    const BlockEnds groups =
        group_bytes_max > 0 ? groups_of(sums, group_bytes_max) : one_layer_each(sums.layers());
    const BlockedNetwork coarse = joined(sums, groups, network.per_block);
    if (least_budget_bytes(coarse) > budget_bytes) {
      WP_ASSERT(group_bytes_max > 0);
      continue;
    }
    BlockEnds ends = nearly_best_ends(coarse, {.budget_bytes = budget_bytes});
    for (uint32_t& end : ends) end = groups[end - 1];
    return plan_with(std::move(ends));
  }
}

}  // namespace weightpager::budget
