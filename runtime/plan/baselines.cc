#include "runtime/plan/baselines.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"

namespace weightpager::plan {
namespace {

uint64_t need_bytes(const Candidate& candidate) {
  return candidate.held_bytes + candidate.workspace_bytes;
}

// By time, then by what it needs: the best of the candidates that need less than that.
std::optional<uint32_t> fastest_below(const Node& node, uint64_t bytes) {
  std::optional<uint32_t> best;
  const auto worth = [&](uint32_t i) {
    return std::tuple(node.candidates[i].time_ns, need_bytes(node.candidates[i]));
  };
  for (uint32_t i = 0; i < node.candidates.size(); ++i) {
    if (need_bytes(node.candidates[i]) >= bytes) continue;
    if (!best || worth(i) < worth(*best)) best = i;
  }
  return best;
}

// One step down, of the node that needs most among those that can do with less.
bool replace_largest(const Instance& instance, std::vector<uint32_t>& chosen) {
  std::optional<uint32_t> largest;
  uint32_t replacement = 0;
  uint64_t largest_bytes = 0;
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    const Node& it = instance.nodes[node];
    const uint64_t bytes = need_bytes(it.candidates[chosen[node]]);
    if (largest && bytes <= largest_bytes) continue;
    const auto below = fastest_below(it, bytes);
    if (!below) continue;
    largest = node;
    largest_bytes = bytes;
    replacement = *below;
  }
  if (!largest) return false;
  chosen[*largest] = replacement;
  return true;
}

bool only_chooses_a_layout(const Node& node) {
  return std::all_of(node.candidates.begin(), node.candidates.end(),
                     [](const Candidate& it) { return it.time_ns == 0 && need_bytes(it) == 0; });
}

// The best layouts of nodes that only choose one, given everything else.
Result<Selection> with_best_layouts(const Instance& instance, std::vector<uint32_t> chosen) {
  Instance fixed = instance;
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    if (only_chooses_a_layout(instance.nodes[node])) continue;
    fixed.nodes[node].candidates = {instance.nodes[node].candidates[chosen[node]]};
  }
  const auto found = fastest_of_any_network(fixed, UINT64_MAX / 2);
  if (!found) return tl::make_unexpected(found.error());
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    if (only_chooses_a_layout(instance.nodes[node])) chosen[node] = found->candidates[node];
  }
  return evaluate(instance, chosen);
}

}  // namespace

std::vector<uint32_t> fastest_of_each(const Instance& instance) {
  std::vector<uint32_t> chosen;
  for (const Node& node : instance.nodes) chosen.push_back(*fastest_below(node, UINT64_MAX));
  return chosen;
}

Result<Selection> greedy(const Instance& instance, uint64_t memory_bytes_max,
                         std::vector<uint32_t> start) {
  WP_ASSERT(start.size() == instance.nodes.size());
  while (true) {
    if (evaluate(instance, start).memory_bytes() <= memory_bytes_max) {
      return with_best_layouts(instance, std::move(start));
    }
    if (!replace_largest(instance, start)) {
      return tl::make_unexpected(budget_too_small(instance, memory_bytes_max));
    }
  }
}

Result<Selection> fastest_ignoring_memory(const Instance& instance) {
  Instance free = instance;
  for (Node& node : free.nodes) {
    for (Candidate& it : node.candidates) it.held_bytes = it.workspace_bytes = 0;
  }
  auto found = fastest_of_any_network(free, 0);
  if (!found) return forward_error(std::move(found));
  return evaluate(instance, found->candidates);
}

}  // namespace weightpager::plan
