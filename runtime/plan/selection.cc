#include "runtime/plan/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "pager/base/assert.h"

namespace weightpager::plan {
namespace {

// With these limits, sums over all nodes stay below 2^64.
constexpr uint64_t candidate_bytes_max = uint64_t{1} << 44;
constexpr size_t nodes_max = size_t{1} << 16;

bool is_time(double time_ns) { return std::isfinite(time_ns) && time_ns >= 0; }

Status check_node(const Instance& instance, size_t number) {
  const Node& node = instance.nodes[number];
  if (node.candidates.empty()) return fail(fmt::format("node {} has no candidates", number));
  for (size_t i = 0; i < node.candidates.size(); ++i) {
    const Candidate& it = node.candidates[i];
    if (it.layout_in >= instance.layouts || it.layout_out >= instance.layouts) {
      return fail(fmt::format("node {}, candidate {}: layouts {} and {}, expected numbers below {}",
                              number, i, it.layout_in, it.layout_out, instance.layouts));
    }
    if (!is_time(it.time_ns)) {
      return fail(fmt::format("node {}, candidate {}: a time of {} ns", number, i, it.time_ns));
    }
    if (std::max(it.held_bytes, it.workspace_bytes) > candidate_bytes_max) {
      return fail(fmt::format("node {}, candidate {}: {} and {} bytes, expected at most {}", number,
                              i, it.held_bytes, it.workspace_bytes, candidate_bytes_max));
    }
  }
  return {};
}

Status check_edge(const Instance& instance, size_t number) {
  const Edge& edge = instance.edges[number];
  if (edge.from >= edge.to || edge.to >= instance.nodes.size()) {
    return fail(fmt::format("edge {} leads from node {} to {}, expected a later one of {} nodes",
                            number, edge.from, edge.to, instance.nodes.size()));
  }
  if (edge.change_ns.size() != size_t{instance.layouts} * instance.layouts) {
    return fail(fmt::format("edge {} has {} costs, expected {} for {} layouts", number,
                            edge.change_ns.size(), instance.layouts * instance.layouts,
                            instance.layouts));
  }
  if (!std::all_of(edge.change_ns.begin(), edge.change_ns.end(), is_time)) {
    return fail(fmt::format("edge {} has a time that is negative or infinite", number));
  }
  return {};
}

struct Need {
  uint64_t memory_bytes = UINT64_MAX;
  uint64_t workspace_bytes = 0;  // that part of it
};

// By rising workspace: the sum of what each node holds at least with candidates up to that
// workspace.
Need least_need(const Instance& instance) {
  struct Way {
    uint64_t workspace_bytes;
    uint64_t held_bytes;
    size_t node;
  };
  std::vector<Way> ways;
  for (size_t node = 0; node < instance.nodes.size(); ++node) {
    for (const Candidate& it : instance.nodes[node].candidates) {
      ways.push_back({it.workspace_bytes, it.held_bytes, node});
    }
  }
  std::ranges::sort(ways, {}, &Way::workspace_bytes);
  std::vector<uint64_t> held_bytes(instance.nodes.size(), UINT64_MAX);
  size_t nodes_left = instance.nodes.size();
  uint64_t sum_bytes = 0;
  Need least;
  for (const Way& it : ways) {
    uint64_t& held = held_bytes[it.node];
    if (it.held_bytes >= held) continue;
    if (held == UINT64_MAX) {
      --nodes_left;
    } else {
      sum_bytes -= held;
    }
    held = it.held_bytes;
    sum_bytes += held;
    // If several have the same workspace, the last one counts: the sum never grows.
    const uint64_t memory_bytes = it.workspace_bytes + sum_bytes;
    if (nodes_left == 0 && memory_bytes < least.memory_bytes) {
      least = {memory_bytes, it.workspace_bytes};
    }
  }
  return least;
}

}  // namespace

Status check(const Instance& instance) {
  if (instance.layouts == 0 || instance.layouts > layouts_max) {
    return fail(fmt::format("{} layouts, expected 1 to {}", instance.layouts, layouts_max));
  }
  if (instance.nodes.empty() || instance.nodes.size() > nodes_max) {
    return fail(fmt::format("{} nodes, expected 1 to {}", instance.nodes.size(), nodes_max));
  }
  for (size_t i = 0; i < instance.nodes.size(); ++i) {
    if (Status checked = check_node(instance, i); !checked) return checked;
  }
  std::set<std::pair<uint32_t, uint32_t>> ends;
  for (size_t i = 0; i < instance.edges.size(); ++i) {
    if (Status checked = check_edge(instance, i); !checked) return checked;
    const Edge& edge = instance.edges[i];
    if (!ends.emplace(edge.from, edge.to).second) {
      return fail(fmt::format("edge {} is the second from node {} to {}", i, edge.from, edge.to));
    }
  }
  return {};
}

Selection evaluate(const Instance& instance, std::span<const uint32_t> candidates) {
  WP_ASSERT(candidates.size() == instance.nodes.size());
  Selection selection{.candidates = {candidates.begin(), candidates.end()}};
  const auto chosen = [&](uint32_t node) -> const Candidate& {
    return instance.nodes[node].candidates[candidates[node]];
  };
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    const Candidate& it = chosen(node);
    selection.time_ns += it.time_ns;
    selection.held_bytes += it.held_bytes;
    selection.workspace_bytes = std::max(selection.workspace_bytes, it.workspace_bytes);
  }
  for (const Edge& edge : instance.edges) {
    selection.time_ns +=
        edge.change_ns[chosen(edge.from).layout_out * instance.layouts + chosen(edge.to).layout_in];
  }
  return selection;
}

std::string name_of(const Instance& instance, size_t node) {
  const std::string& name = instance.nodes[node].name;
  return name.empty() ? fmt::format("node {}", node) : name;
}

uint64_t least_memory_bytes(const Instance& instance) { return least_need(instance).memory_bytes; }

Selection smallest(const Instance& instance) {
  const uint64_t workspace_bytes_max = least_need(instance).workspace_bytes;
  std::vector<uint32_t> candidates;
  for (const Node& node : instance.nodes) {
    const auto need = [&](const Candidate& it) {
      return std::pair(it.workspace_bytes > workspace_bytes_max, it.held_bytes);
    };
    const auto least = std::ranges::min_element(node.candidates, {}, need);
    candidates.push_back(static_cast<uint32_t>(least - node.candidates.begin()));
  }
  return evaluate(instance, candidates);
}

}  // namespace weightpager::plan
