#include "runtime/plan/series_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::plan {
namespace {

// By pair of layouts: of a node its own two, of an arc those at its ends.
using Table = std::vector<Front>;

constexpr size_t nodes_named_max = 6;

// One edge, or what became of several.
struct Arc {
  uint32_t from = 0;
  uint32_t to = 0;
  Table table;
};

class Reduction {
 public:
  Reduction(const Instance& instance, const Limits& limits)
      : instance_(instance),
        limits_(limits),
        layouts_(instance.layouts),
        is_there_(instance.nodes.size(), true),
        arcs_in_(instance.nodes.size()),
        arcs_out_(instance.nodes.size()) {}

  Result<Reduced> run() {
    if (!fill_nodes()) return Reduced{};
    for (const Edge& edge : instance_.edges) add_arc({edge.from, edge.to, table_of(edge)});
    while (fold_leaf() || join_in_series()) {
    }
    if (Status done = check_nothing_in_the_way(); !done) return forward_error(std::move(done));
    return Reduced{sum_of_all(), std::move(choices_), instance_.nodes.size()};
  }

 private:
  size_t cell(size_t first, size_t second) const { return first * layouts_ + second; }

  // Whether each node has a candidate within the limits.
  bool fill_nodes() {
    uint64_t least_sum_bytes = 0;
    std::vector<uint64_t> least_bytes;
    for (const Node& node : instance_.nodes) {
      uint64_t least = UINT64_MAX;
      for (const Candidate& it : node.candidates) {
        if (is_allowed(it)) least = std::min(least, it.held_bytes);
      }
      if (least == UINT64_MAX) return false;
      least_bytes.push_back(least);
      least_sum_bytes += least;
    }
    if (least_sum_bytes > limits_.held_bytes_max) return false;
    base_bytes_ = least_sum_bytes;
    excess_bytes_max_ = limits_.held_bytes_max - least_sum_bytes;
    for (uint32_t i = 0; i < instance_.nodes.size(); ++i) {
      nodes_.push_back(table_of(i, least_bytes[i]));
    }
    return true;
  }

  bool is_allowed(const Candidate& candidate) const {
    return candidate.workspace_bytes <= limits_.workspace_bytes_max;
  }

  Table table_of(uint32_t number, uint64_t least_bytes) {
    Table table(layouts_ * layouts_);
    const std::vector<Candidate>& candidates = instance_.nodes[number].candidates;
    for (uint32_t i = 0; i < candidates.size(); ++i) {
      const Candidate& it = candidates[i];
      if (!is_allowed(it)) continue;
      const uint64_t excess = round_up(it.held_bytes - least_bytes, limits_.quantum_bytes);
      if (excess > excess_bytes_max_) continue;
      table[cell(it.layout_in, it.layout_out)].push_back(
          {excess, it.time_ns, choices_.of_candidate(number, i)});
    }
    for (Front& front : table) keep_best(front);
    return table;
  }

  Table table_of(const Edge& edge) const {
    Table table;
    for (const double change_ns : edge.change_ns) table.push_back({{0, change_ns, no_origin}});
    return table;
  }

  Front best(std::span<const Sums> sums) { return best_of(sums, excess_bytes_max_, choices_); }

  // For each pair of outer layouts the best over the layouts in between.
  Table in_series(const Table& left, const Table& right) {
    Table joined(layouts_ * layouts_);
    std::vector<Sums> sums(layouts_);
    for (size_t first = 0; first < layouts_; ++first) {
      for (size_t last = 0; last < layouts_; ++last) {
        for (size_t middle = 0; middle < layouts_; ++middle) {
          sums[middle] = {&left[cell(first, middle)], &right[cell(middle, last)]};
        }
        joined[cell(first, last)] = best(sums);
      }
    }
    return joined;
  }

  // The best of several fronts.
  static Front best_of_any(std::span<const Front* const> fronts) {
    Front all;
    for (const Front* front : fronts) all.insert(all.end(), front->begin(), front->end());
    keep_best(all);
    return all;
  }

  void add_arc(Arc arc) {
    for (const size_t other : arcs_out_[arc.from]) {
      if (arcs_[other].to != arc.to) continue;
      Table& table = arcs_[other].table;
      for (size_t i = 0; i < table.size(); ++i) {
        const Sums sums[] = {{&table[i], &arc.table[i]}};
        table[i] = best(sums);
      }
      return;
    }
    arcs_out_[arc.from].push_back(arcs_.size());
    arcs_in_[arc.to].push_back(arcs_.size());
    arcs_.push_back(std::move(arc));
  }

  Arc take_arc(size_t number) {
    Arc arc = std::move(arcs_[number]);
    std::erase(arcs_out_[arc.from], number);
    std::erase(arcs_in_[arc.to], number);
    return arc;
  }

  size_t arcs_of(uint32_t node) const { return arcs_in_[node].size() + arcs_out_[node].size(); }

  bool fold_leaf() {
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (!is_there_[node] || arcs_of(node) != 1) continue;
      fold(node);
      is_there_[node] = false;
      nodes_[node].clear();
      return true;
    }
    return false;
  }

  // A node with one arc, into the node at the arc's other end. Seen from there: `far` is the layout
  // that no arc asks for, `near` and `other` are those at the arc's ends.
  void fold(uint32_t node) {
    const bool is_first = arcs_in_[node].empty();
    const Arc arc = take_arc(is_first ? arcs_out_[node].front() : arcs_in_[node].front());
    const auto at = [&](size_t left, size_t right) {
      return is_first ? cell(left, right) : cell(right, left);
    };
    std::vector<Front> by_near;
    for (size_t near = 0; near < layouts_; ++near) {
      std::vector<const Front*> fronts;
      for (size_t far = 0; far < layouts_; ++far) fronts.push_back(&nodes_[node][at(far, near)]);
      by_near.push_back(best_of_any(fronts));
    }
    Table& neighbor = nodes_[is_first ? arc.to : arc.from];
    for (size_t other = 0; other < layouts_; ++other) {
      std::vector<Sums> ways;
      for (size_t near = 0; near < layouts_; ++near) {
        ways.push_back({&by_near[near], &arc.table[at(near, other)]});
      }
      const Front folded = best(ways);
      for (size_t rest = 0; rest < layouts_; ++rest) {
        Front& front = neighbor[at(other, rest)];
        const Sums sums[] = {{&folded, &front}};
        front = best(sums);
      }
    }
  }

  bool join_in_series() {
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (!is_there_[node] || arcs_in_[node].size() != 1 || arcs_out_[node].size() != 1) continue;
      const Arc before = take_arc(arcs_in_[node].front());
      const Arc after = take_arc(arcs_out_[node].front());
      Table table = in_series(in_series(before.table, nodes_[node]), after.table);
      is_there_[node] = false;
      nodes_[node].clear();
      add_arc({before.from, after.to, std::move(table)});
      return true;
    }
    return false;
  }

  Status check_nothing_in_the_way() const {
    std::string names;
    size_t left = 0;
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (!is_there_[node] || arcs_of(node) == 0) continue;
      if (left++ < nodes_named_max) names += (left == 1 ? "" : ", ") + name_of(instance_, node);
    }
    if (left == 0) return {};
    return fail(
        fmt::format("the network is not series-parallel: {} nodes cannot be joined, among "
                    "them {}",
                    left, names));
  }

  // Of the parts that nothing connects.
  Front sum_of_all() {
    Front sum = {{base_bytes_, 0, no_origin}};
    excess_bytes_max_ = limits_.held_bytes_max;
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (!is_there_[node]) continue;
      std::vector<const Front*> fronts;
      for (const Front& front : nodes_[node]) fronts.push_back(&front);
      const Front part = best_of_any(fronts);
      const Sums sums[] = {{&sum, &part}};
      sum = best(sums);
    }
    return sum;
  }

  const Instance& instance_;
  const Limits limits_;
  const size_t layouts_;
  uint64_t base_bytes_ = 0;
  uint64_t excess_bytes_max_ = 0;
  Choices choices_;
  std::vector<Table> nodes_;
  std::vector<bool> is_there_;
  std::vector<Arc> arcs_;
  // Numbers of arcs, by node.
  std::vector<std::vector<size_t>> arcs_in_;
  std::vector<std::vector<size_t>> arcs_out_;
};

}  // namespace

std::vector<uint32_t> Reduced::candidates(const Label& label) const {
  std::vector<uint32_t> candidates(nodes);
  choices.write(label.origin, candidates);
  return candidates;
}

Result<Reduced> reduce(const Instance& instance, const Limits& limits) {
  WP_ASSERT(limits.quantum_bytes > 0);
  return Reduction(instance, limits).run();
}

Status check_series_parallel(const Instance& instance) {
  Instance bare{.layouts = 1};
  for (const Node& node : instance.nodes) bare.nodes.push_back({{Candidate{}}, node.name});
  for (const Edge& edge : instance.edges) bare.edges.push_back({edge.from, edge.to, {0}});
  auto reduced = reduce(bare, {});
  if (!reduced) return forward_error(std::move(reduced));
  return {};
}

}  // namespace weightpager::plan
