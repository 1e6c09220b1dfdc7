#include "runtime/plan/baselines.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
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

// The best of the candidates that need less than `bytes`: by time, then by need.
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

// Steps down: each step changes the node that needs most among the nodes that can do with less. The
// needs are kept in order, because a look at all nodes for each step would take the square of their
// number.
class Descent {
 public:
  Descent(const Instance& instance, std::vector<uint32_t> start)
      : instance_(instance), chosen_(std::move(start)) {
    for (uint32_t node = 0; node < chosen_.size(); ++node) add(node);
  }

  uint64_t memory_bytes() const { return held_bytes_ + *workspaces_.rbegin(); }

  bool replace_largest() {
    while (!needs_.empty()) {
      const auto [bytes, node_from_end] = *needs_.rbegin();
      needs_.erase(std::prev(needs_.end()));
      const auto node = static_cast<uint32_t>(chosen_.size() - node_from_end);
      const auto below = fastest_below(instance_.nodes[node], bytes);
      if (!below) continue;
      held_bytes_ -= chosen(node).held_bytes;
      workspaces_.erase(workspaces_.find(chosen(node).workspace_bytes));
      chosen_[node] = *below;
      add(node);
      return true;
    }
    return false;
  }

  const std::vector<uint32_t>& chosen() const { return chosen_; }

 private:
  const Candidate& chosen(uint32_t node) const {
    return instance_.nodes[node].candidates[chosen_[node]];
  }

  void add(uint32_t node) {
    held_bytes_ += chosen(node).held_bytes;
    workspaces_.insert(chosen(node).workspace_bytes);
    needs_.insert({need_bytes(chosen(node)), chosen_.size() - node});
  }

  const Instance& instance_;
  std::vector<uint32_t> chosen_;
  uint64_t held_bytes_ = 0;
  std::multiset<uint64_t> workspaces_;
  // The second number is larger for earlier nodes: of equal needs, the first node's comes last.
  std::set<std::pair<uint64_t, size_t>> needs_;
};

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

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The numbers of a node's candidates that are kept.
std::vector<uint32_t> kept_candidates(const std::vector<std::string>& kinds,
                                      std::span<const KindSet> preferred) {
  std::vector<uint32_t> kept;
  for (const KindSet& set : preferred) {
    for (uint32_t i = 0; i < kinds.size(); ++i) {
      if (has(set, kinds[i])) kept.push_back(i);
    }
    if (!kept.empty()) return kept;
  }
  kept.resize(kinds.size());
  std::iota(kept.begin(), kept.end(), 0U);
  return kept;
}

}  // namespace

Result<Selection> greedy(const Instance& instance, uint64_t memory_bytes_max,
                         std::vector<uint32_t> start) {
  WP_ASSERT(start.size() == instance.nodes.size());
  Descent descent(instance, std::move(start));
  while (descent.memory_bytes() > memory_bytes_max) {
    if (!descent.replace_largest()) {
      return tl::make_unexpected(budget_too_small(instance, memory_bytes_max));
    }
  }
  return with_best_layouts(instance, descent.chosen());
}

Result<Selection> fastest_ignoring_memory(const Instance& instance, const TimeLimit& limit) {
  Instance free = instance;
  for (Node& node : free.nodes) {
    for (Candidate& it : node.candidates) it.held_bytes = it.workspace_bytes = 0;
  }
  auto found = fastest_of_any_network(free, 0, 1, limit);
  if (!found) return forward_error(std::move(found));
  return evaluate(instance, found->candidates);
}

FewerCandidates keep_kinds(const Instance& instance, const PrimitiveKinds& kinds,
                           std::span<const KindSet> preferred) {
  WP_ASSERT(kinds.size() == instance.nodes.size());
  FewerCandidates fewer{.instance = instance, .numbers = {}};
  for (size_t node = 0; node < kinds.size(); ++node) {
    const std::vector<Candidate>& all = instance.nodes[node].candidates;
    WP_ASSERT(kinds[node].size() == all.size());
    fewer.numbers.push_back(kept_candidates(kinds[node], preferred));
    std::vector<Candidate>& kept = fewer.instance.nodes[node].candidates;
    kept.clear();
    for (const uint32_t i : fewer.numbers.back()) kept.push_back(all[i]);
  }
  return fewer;
}

Result<OnePrimitive> one_primitive_everywhere(const Instance& instance, const PrimitiveKinds& kinds,
                                              const std::string& primitive,
                                              std::span<const std::string> fall_backs,
                                              const TimeLimit& limit) {
  std::vector<KindSet> preferred = {{primitive}};
  for (const std::string& kind : fall_backs) preferred.push_back({kind});
  const FewerCandidates fewer = keep_kinds(instance, kinds, preferred);
  auto found = fastest_ignoring_memory(fewer.instance, limit);
  if (!found) return forward_error(std::move(found));
  OnePrimitive made;
  std::vector<uint32_t> chosen;
  for (size_t node = 0; node < kinds.size(); ++node) {
    chosen.push_back(fewer.numbers[node][found->candidates[node]]);
    const std::string& kind = kinds[node][chosen.back()];
    if (kind == primitive) ++made.nodes_by_it;
    if (kind != primitive && !kind.empty()) ++made.nodes_by_others;
  }
  made.selection = evaluate(instance, chosen);
  return made;
}

}  // namespace weightpager::plan
