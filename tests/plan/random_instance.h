// Small series-parallel networks with random candidates, and all their selections.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/selection.h"

namespace weightpager::plan {

class RandomInstances {
 public:
  explicit RandomInstances(uint64_t seed) : random_(seed) {}

  uint64_t up_to(uint64_t largest) {
    return std::uniform_int_distribution<uint64_t>(0, largest)(random_);
  }

  /// Grown from one node: in series, by a branch beside an edge, by a leaf, or apart from the rest.
  Instance make(size_t nodes_max, size_t candidates_max) {
    Instance instance{.layouts = 1 + static_cast<uint32_t>(up_to(2))};
    const std::vector<std::pair<uint32_t, uint32_t>> edges = grow(1 + up_to(nodes_max - 1));
    for (uint32_t i = 0; i < nodes_; ++i) instance.nodes.push_back(node(instance, candidates_max));
    for (const auto& [from, to] : edges) instance.edges.push_back(edge(instance, from, to));
    return instance;
  }

  Node node(const Instance& instance, size_t candidates_max) {
    Node made;
    for (size_t i = 1 + up_to(candidates_max - 1); i > 0; --i) {
      made.candidates.push_back({.time_ns = static_cast<double>(up_to(20)),
                                 .held_bytes = up_to(9),
                                 .workspace_bytes = up_to(5),
                                 .layout_in = static_cast<uint32_t>(up_to(instance.layouts - 1)),
                                 .layout_out = static_cast<uint32_t>(up_to(instance.layouts - 1))});
    }
    return made;
  }

  Edge edge(const Instance& instance, uint32_t from, uint32_t to) {
    Edge made{from, to, {}};
    for (uint32_t i = 0; i < instance.layouts * instance.layouts; ++i) {
      made.change_ns.push_back(i % (instance.layouts + 1) == 0 ? 0 : static_cast<double>(up_to(8)));
    }
    return made;
  }

 private:
  // Nodes are numbered as they come about, then again in an order in which edges lead on.
  std::vector<std::pair<uint32_t, uint32_t>> grow(size_t nodes) {
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    std::vector<double> position = {0.5};
    while (position.size() < nodes) {
      const auto added = static_cast<uint32_t>(position.size());
      const auto old = static_cast<uint32_t>(up_to(added - 1));
      const uint64_t kind = up_to(9);
      if (kind < 7 && !edges.empty()) {
        const auto [from, to] = edges[up_to(edges.size() - 1)];
        position.push_back((position[from] + position[to]) / 2 + tiny());
        // A branch leaves the edge where it is.
        if (kind < 3) std::erase(edges, std::pair(from, to));
        edges.emplace_back(from, added);
        edges.emplace_back(added, to);
      } else if (kind < 9 || added == 1) {
        const bool is_after = up_to(1) == 0;
        position.push_back(is_after ? position[old] + 1 + tiny() : position[old] - 1 - tiny());
        edges.emplace_back(is_after ? old : added, is_after ? added : old);
      } else {
        position.push_back(tiny());
      }
    }
    nodes_ = position.size();
    return renumbered(position, edges);
  }

  // So that no two nodes are in one place.
  double tiny() { return 1e-9 * static_cast<double>(up_to(1000)) / 1000; }

  static std::vector<std::pair<uint32_t, uint32_t>> renumbered(
      const std::vector<double>& position,
      const std::vector<std::pair<uint32_t, uint32_t>>& edges) {
    const auto rank = [&](uint32_t node) {
      uint32_t before = 0;
      for (uint32_t i = 0; i < position.size(); ++i) {
        before += std::pair(position[i], i) < std::pair(position[node], node);
      }
      return before;
    };
    std::vector<std::pair<uint32_t, uint32_t>> renumbered;
    for (const auto& [from, to] : edges) renumbered.emplace_back(rank(from), rank(to));
    return renumbered;
  }

  std::mt19937_64 random_;
  size_t nodes_ = 0;
};

/// Calls `visit` with every selection.
inline void for_each_selection(const Instance& instance,
                               const std::function<void(const Selection&)>& visit) {
  std::vector<uint32_t> candidates(instance.nodes.size());
  while (true) {
    visit(evaluate(instance, candidates));
    size_t node = 0;
    while (node < candidates.size() &&
           ++candidates[node] == instance.nodes[node].candidates.size()) {
      candidates[node++] = 0;
    }
    if (node == candidates.size()) return;
  }
}

}  // namespace weightpager::plan
