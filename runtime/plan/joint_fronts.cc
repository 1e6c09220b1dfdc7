#include "runtime/plan/joint_fronts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "pager/base/units.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

// The quantum in which fronts count weights. Weights come in pages, so fronts are exact.
constexpr uint64_t quantum_bytes = os_page_bytes;
// The numbers of caps that fronts are made for, by how many nodes have to be cut: each of these
// nodes makes a front take four times as long.
struct CapCounts {
  size_t arenas;
  size_t pieces;
  // The quantum of memory in fastest_alone(): each workspace takes a reduction.
  uint64_t others_quantum_bytes;
};
constexpr CapCounts cap_counts[] = {{12, 4, 64 * KiB}, {8, 3, 512 * KiB}, {4, 2, 2 * MiB}};
constexpr uint32_t points_by_integer_programming = 12;

std::vector<uint64_t> thinned(const std::set<uint64_t>& values, size_t most) {
  const std::vector<uint64_t> all(values.begin(), values.end());
  if (all.size() <= most) return all;
  // Each the same factor above the one before; the first and the last are always kept.
  std::set<uint64_t> kept;
  // The first may be 0, which has no factor above it: tiles then count as a small piece.
  const auto first = static_cast<double>(std::max(all.front(), quantum_bytes));
  const double ratio = static_cast<double>(all.back()) / first;
  for (size_t i = 0; i < most; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(most - 1);
    const auto wanted = static_cast<uint64_t>(first * std::pow(ratio, exponent));
    kept.insert(*(std::upper_bound(all.begin(), all.end(), wanted) - 1));
  }
  kept.insert(all.front());
  kept.insert(all.back());
  return {kept.begin(), kept.end()};
}

/// Some candidates of an instance, and their original numbers.
struct Filtered {
  Instance instance;
  std::vector<std::vector<uint32_t>> kept;  // by node

  bool has_all_nodes() const {
    return std::none_of(kept.begin(), kept.end(), [](const auto& it) { return it.empty(); });
  }
  std::vector<uint32_t> original(std::vector<uint32_t> candidates) const {
    for (size_t node = 0; node < kept.size(); ++node) {
      candidates[node] = kept[node][candidates[node]];
    }
    return candidates;
  }
};

template <typename Keep>
Filtered filtered(const Instance& instance, Keep keep) {
  Filtered it{.instance = {.layouts = instance.layouts, .nodes = {}, .edges = instance.edges},
              .kept = {}};
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    const Node& from = instance.nodes[node];
    Node& to = it.instance.nodes.emplace_back(Node{{}, from.name});
    std::vector<uint32_t>& kept = it.kept.emplace_back();
    for (uint32_t candidate = 0; candidate < from.candidates.size(); ++candidate) {
      if (!keep(node, candidate)) continue;
      to.candidates.push_back(from.candidates[candidate]);
      kept.push_back(candidate);
    }
  }
  return it;
}

}  // namespace

Result<JointFronts> JointFronts::make(const JointNetwork& network, const TimeLimit& limit) {
  JointFronts made(network);
  if (auto cuts = plan::cuts_needed(network.instance())) {
    made.cuts_needed_ = *std::move(cuts);
    made.choose_caps();
  } else if (Status done = made.use_integer_programming(limit); !done) {
    return forward_error(std::move(done));
  }
  return made;
}

void JointFronts::choose_caps() {
  const Instance& instance = network_->instance();
  std::set<uint64_t> arenas, wholes;
  uint64_t least_arena = 0;
  uint64_t least_whole = 0;
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    uint64_t least_here = UINT64_MAX;
    uint64_t least_whole_here = UINT64_MAX;
    for (uint32_t c = 0; c < instance.nodes[node].candidates.size(); ++c) {
      const Candidate& it = instance.nodes[node].candidates[c];
      const uint64_t whole_bytes = network_->whole_bytes(node, c);
      arenas.insert(round_up(it.workspace_bytes, quantum_bytes));
      wholes.insert(whole_bytes);
      least_here = std::min(least_here, it.workspace_bytes);
      least_whole_here = std::min(least_whole_here, whole_bytes);
    }
    least_arena = std::max(least_arena, least_here);
    least_whole = std::max(least_whole, least_whole_here);
  }
  for (const Edge& edge : instance.edges) {
    for (uint32_t layout = 0; layout < instance.layouts; ++layout) {
      arenas.insert(round_up(network_->arena_with_change(edge, layout), quantum_bytes));
    }
  }
  least_arena_bytes_ = least_arena;
  arenas.erase(arenas.begin(), arenas.lower_bound(least_arena));
  wholes.erase(wholes.begin(), wholes.lower_bound(least_whole));
  arena_caps_ = thinned(arenas, cap_counts[cuts_needed_->size()].arenas);
  piece_caps_ = thinned(wholes, cap_counts[cuts_needed_->size()].pieces);
  // The bounds come from the loosest cap, so it is the first.
  std::reverse(piece_caps_.begin(), piece_caps_.end());
}

// There is one front, without caps.
Status JointFronts::use_integer_programming(const TimeLimit& limit) {
  auto front = front_of_any_network(network_->instance(), quantum_bytes,
                                    points_by_integer_programming, limit);
  if (!front) return forward_error(std::move(front));
  arena_caps_ = {UINT64_MAX};
  piece_caps_ = {UINT64_MAX};
  std::vector<JointOption>& options = fronts_[{0, 0}];
  for (Selection& it : *front) options.push_back(network_->option_of(std::move(it.candidates)));
  return {};
}

size_t JointFronts::arena_caps_within(uint64_t budget_bytes) const {
  size_t caps = 1;
  while (caps < arena_caps_.size() && arena_caps_[caps - 1] <= budget_bytes) ++caps;
  return caps;
}

uint64_t JointFronts::window_bytes_max(uint64_t budget_bytes, size_t arena_cap) const {
  const uint64_t arena_bytes = arena_cap == 0 ? least_arena_bytes_ : arena_caps_[arena_cap - 1];
  return budget_bytes - std::min(budget_bytes, arena_bytes);
}

// For each piece, bisection finds the smallest arena that a selection exists with: a larger arena
// makes nothing impossible.
LeastNeed JointFronts::least_need(const TimeLimit& limit) const {
  LeastNeed least;
  if (!cuts_needed_) return least;
  std::set<uint64_t> arena_set, piece_set;
  uint64_t least_piece = 0;
  const Instance& instance = network_->instance();
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    uint64_t least_here = UINT64_MAX;
    for (uint32_t c = 0; c < instance.nodes[node].candidates.size(); ++c) {
      arena_set.insert(instance.nodes[node].candidates[c].workspace_bytes);
      piece_set.insert(network_->smallest_piece_bytes(node, c));
      least_here = std::min(least_here, network_->smallest_piece_bytes(node, c));
    }
    least_piece = std::max(least_piece, least_here);
  }
  for (const Edge& edge : instance.edges) {
    for (uint32_t layout = 0; layout < instance.layouts; ++layout) {
      arena_set.insert(network_->arena_with_change(edge, layout));
    }
  }
  const std::vector<uint64_t> arenas(arena_set.lower_bound(least_arena_bytes_), arena_set.end());
  for (auto piece = piece_set.lower_bound(least_piece); piece != piece_set.end(); ++piece) {
    if (limit.is_over()) return {};
    const auto worth = [&](uint64_t arena) { return arena + *piece < least.bytes; };
    size_t begin = 0;
    size_t end = static_cast<size_t>(std::partition_point(arenas.begin(), arenas.end(), worth) -
                                     arenas.begin());
    if (end == 0) break;
    std::optional<std::vector<uint32_t>> found = plainest(arenas[end - 1], *piece);
    if (!found) continue;
    while (begin + 1 < end) {
      if (limit.is_over()) return {};
      const size_t middle = begin + (end - begin) / 2;
      auto with_less = plainest(arenas[middle - 1], *piece);
      if (with_less) {
        found = std::move(with_less);
        end = middle;
      } else {
        begin = middle;
      }
    }
    least.bytes = arenas[end - 1] + *piece;
    least.candidates.push_back(*std::move(found));
  }
  return least;
}

// Of all selections within both caps, the one with the fewest bytes that are not in Darknet's
// layout.
std::optional<std::vector<uint32_t>> JointFronts::plainest(uint64_t arena_bytes_max,
                                                           uint64_t piece_bytes_max) const {
  Filtered some = filtered(network_->instance(), [&](uint32_t node, uint32_t candidate) {
    return network_->smallest_piece_bytes(node, candidate) <= piece_bytes_max;
  });
  if (!some.has_all_nodes()) return std::nullopt;
  for (uint32_t node = 0; node < some.instance.nodes.size(); ++node) {
    for (Candidate& it : some.instance.nodes[node].candidates) {
      const bool is_forbidden = it.time_ns >= forbidden_ns;
      it.held_bytes = 0;
      it.time_ns = is_forbidden ? forbidden_ns : network_->bytes_beside_plain(node, it);
    }
  }
  for (Edge& edge : some.instance.edges) {
    for (uint32_t from = 0; from < some.instance.layouts; ++from) {
      for (uint32_t to = 0; to < some.instance.layouts; ++to) {
        if (from == to) continue;
        edge.change_ns[from * some.instance.layouts + to] =
            static_cast<double>(network_->arena_with_change(edge, to));
      }
    }
  }
  forbid_changes(some.instance, arena_bytes_max);
  const Reduced reduced =
      reduce(some.instance, *cuts_needed_, {.workspace_bytes_max = arena_bytes_max});
  if (reduced.front.empty() || reduced.front.back().time_ns >= forbidden_ns) return std::nullopt;
  return some.original(reduced.candidates(reduced.front.back()));
}

const std::vector<JointOption>& JointFronts::front(size_t arena_cap, size_t piece_cap) {
  const auto [found, is_new] = fronts_.try_emplace({arena_cap, piece_cap});
  if (!is_new) return found->second;
  ++fronts_made_;
  Filtered some = filtered(network_->instance(), [&](uint32_t node, uint32_t candidate) {
    return network_->whole_bytes(node, candidate) <= piece_caps_[piece_cap];
  });
  if (!some.has_all_nodes()) return found->second;
  forbid_changes(some.instance, arena_caps_[arena_cap]);
  const Reduced reduced =
      reduce(some.instance, *cuts_needed_,
             {.workspace_bytes_max = arena_caps_[arena_cap], .quantum_bytes = quantum_bytes});
  for (const Label& label : reduced.front) {
    if (label.time_ns >= forbidden_ns) continue;
    found->second.push_back(network_->option_of(some.original(reduced.candidates(label))));
  }
  return found->second;
}

void JointFronts::forbid_changes(Instance& instance, uint64_t arena_bytes_max) const {
  for (Edge& edge : instance.edges) {
    for (uint32_t to = 0; to < instance.layouts; ++to) {
      if (network_->arena_with_change(edge, to) <= arena_bytes_max) continue;
      for (uint32_t from = 0; from < instance.layouts; ++from) {
        if (from != to) edge.change_ns[from * instance.layouts + to] = forbidden_ns;
      }
    }
  }
}

std::optional<JointOption> JointFronts::fastest_alone(SelectionScope strategy,
                                                      uint64_t budget_bytes,
                                                      const TimeLimit& limit) const {
  if (!cuts_needed_) return std::nullopt;
  const uint64_t left_bytes = window_bytes_max(budget_bytes, 0);
  const Instance instance = network_->without_activations(strategy);
  if (least_memory_bytes(instance) > left_bytes) return std::nullopt;
  auto found =
      fastest(instance, left_bytes, cap_counts[cuts_needed_->size()].others_quantum_bytes, limit);
  if (!found) return std::nullopt;
  return network_->option_of(std::move(found->candidates));
}

}  // namespace weightpager::plan
