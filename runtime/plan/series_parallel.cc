#include "runtime/plan/series_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::plan {
namespace {

// Fronts by pair of layouts: a node's own two, or those at an arc's ends.
using Table = std::vector<Front>;

constexpr size_t nodes_named_max = 6;
// Where more nodes are left, cuts are not tried: the pairs of nodes are as many as the square of
// that, and each pair takes a reduction.
constexpr size_t nodes_cut_max = 256;

// Fronts grow with the number of nodes, and so does the time for each node. With thousands of
// nodes, fronts are kept short.
constexpr size_t nodes_exact_max = 1000;
constexpr size_t labels_of_more_nodes = 64;
// A front's ends.
constexpr size_t labels_out_of_time = 2;

// One edge, or the result of joining several.
struct Arc {
  uint32_t from = 0;
  uint32_t to = 0;
  Table table;
};

class Reduction {
 public:
  Reduction(const Instance& instance, const Limits& limits, Choices& choices)
      : instance_(instance),
        limits_(limits),
        layouts_(instance.layouts),
        choices_(choices),
        arcs_in_(instance.nodes.size()),
        arcs_out_(instance.nodes.size()) {
    if (!fill_nodes()) return;
    is_there_.assign(nodes_.size(), true);
    for (const Edge& edge : instance_.edges) add_arc({edge.from, edge.to, table_of(edge)});
  }

  void join_all() {
    while (fold_leaf() || join_in_series()) {
    }
  }

  // Cuts a node, whose output is in a known layout. So the nodes that take it in are independent of
  // each other: each gets a source of its own in the node's place, which costs nothing.
  void cut(uint32_t node, size_t layout_out) {
    for (size_t in = 0; in < layouts_; ++in) {
      for (size_t out = 0; out < layouts_; ++out) {
        if (out != layout_out) nodes_[node][cell(in, out)].clear();
      }
    }
    for (const size_t arc : std::exchange(arcs_out_[node], {})) {
      arcs_[arc].from = static_cast<uint32_t>(nodes_.size());
      Table& source = nodes_.emplace_back(layouts_ * layouts_);
      source[cell(layout_out, layout_out)] = {{0, 0, no_origin}};
      is_there_.push_back(true);
      arcs_in_.emplace_back();
      arcs_out_.push_back({arc});
      arcs_changed(arcs_[arc].from);
    }
    arcs_changed(node);
  }

  /// Nodes that could not be joined. If there are none, front() is right.
  std::vector<uint32_t> left() const {
    std::vector<uint32_t> nodes;
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (is_there_[node] && arcs_of(node) > 0) nodes.push_back(node);
    }
    return nodes;
  }

  /// The sum over all parts that are left unconnected. Empty where limits and cuts leave nothing.
  Front front() {
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

  bool is_possible() const { return !nodes_.empty(); }

 private:
  size_t cell(size_t first, size_t second) const { return first * layouts_ + second; }

  // Returns whether each node has a candidate within the limits.
  bool fill_nodes() {
    uint64_t least_sum_bytes = 0;
    std::vector<uint64_t> least_bytes;
    for (uint32_t node = 0; node < instance_.nodes.size(); ++node) {
      uint64_t least = UINT64_MAX;
      for (const Candidate& it : instance_.nodes[node].candidates) {
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
    for (Front& front : table) keep_best<&Label::memory_bytes>(front);
    return table;
  }

  Table table_of(const Edge& edge) const {
    Table table;
    for (const double change_ns : edge.change_ns) table.push_back({{0, change_ns, no_origin}});
    return table;
  }

  Front best(std::span<const Sums> sums) {
    return best_of(sums, {excess_bytes_max_, labels_max()}, choices_);
  }

  size_t labels_max() const {
    if (limits_.time != nullptr && limits_.time->is_over()) return labels_out_of_time;
    return is_exact(instance_) ? SIZE_MAX : labels_of_more_nodes;
  }

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
    keep_best<&Label::memory_bytes>(all);
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
    arcs_changed(arc.from);
    arcs_changed(arc.to);
    arcs_.push_back(std::move(arc));
  }

  Arc take_arc(size_t number) {
    Arc arc = std::move(arcs_[number]);
    std::erase(arcs_out_[arc.from], number);
    std::erase(arcs_in_[arc.to], number);
    arcs_changed(arc.from);
    arcs_changed(arc.to);
    return arc;
  }

  void leave_out(uint32_t node) {
    is_there_[node] = false;
    nodes_[node].clear();
    arcs_changed(node);
  }

  // The nodes that can be joined are kept in sets: a look at all nodes for each join would take the
  // square of their number.
  void arcs_changed(uint32_t node) {
    const auto keep = [&](std::set<uint32_t>& set, bool is_in) {
      if (is_in) {
        set.insert(node);
      } else {
        set.erase(node);
      }
    };
    keep(leaves_, is_there_[node] && arcs_of(node) == 1);
    keep(between_two_,
         is_there_[node] && arcs_in_[node].size() == 1 && arcs_out_[node].size() == 1);
  }

  size_t arcs_of(uint32_t node) const { return arcs_in_[node].size() + arcs_out_[node].size(); }

  bool fold_leaf() {
    if (leaves_.empty()) return false;
    const uint32_t node = *leaves_.begin();
    fold(node);
    leave_out(node);
    return true;
  }

  // Folds a node with one arc into the node at the arc's other end. `far` is the layout that no arc
  // asks for; `near` is the layout at this node's end of the arc, `other` that at the other end.
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
    if (between_two_.empty()) return false;
    const uint32_t node = *between_two_.begin();
    const Arc before = take_arc(arcs_in_[node].front());
    const Arc after = take_arc(arcs_out_[node].front());
    Table table = in_series(in_series(before.table, nodes_[node]), after.table);
    leave_out(node);
    add_arc({before.from, after.to, std::move(table)});
    return true;
  }

  const Instance& instance_;
  const Limits limits_;
  const size_t layouts_;
  uint64_t base_bytes_ = 0;
  uint64_t excess_bytes_max_ = 0;
  Choices& choices_;
  // The nodes of the instance, then the sources that cuts made.
  std::vector<Table> nodes_;
  std::vector<bool> is_there_;
  std::vector<Arc> arcs_;
  // Numbers of arcs, by node.
  std::vector<std::vector<size_t>> arcs_in_;
  std::vector<std::vector<size_t>> arcs_out_;
  // Nodes with a single arc; nodes with one arc in and one out.
  std::set<uint32_t> leaves_;
  std::set<uint32_t> between_two_;
};

// The graph alone: one layout, and candidates that cost nothing.
Instance bare(const Instance& instance) {
  Instance it{.layouts = 1};
  for (const Node& node : instance.nodes) it.nodes.push_back({{Candidate{}}, node.name});
  for (const Edge& edge : instance.edges) it.edges.push_back({edge.from, edge.to, {0}});
  return it;
}

// Cuts in layout 0, the only one of a bare instance.
std::vector<uint32_t> left_after(Reduction reduction, std::initializer_list<uint32_t> cuts) {
  for (const uint32_t node : cuts) {
    reduction.cut(node, 0);
    reduction.join_all();
  }
  return reduction.left();
}

Error not_reducible(const Instance& instance, const std::vector<uint32_t>& left) {
  std::string names;
  for (size_t i = 0; i < std::min(left.size(), nodes_named_max); ++i) {
    names += (i == 0 ? "" : ", ") + name_of(instance, left[i]);
  }
  return {fmt::format("the network is not nearly series-parallel: {} nodes cannot be joined, among "
                      "them {}, and {}",
                      left.size(), names,
                      left.size() > nodes_cut_max ? "they are too many for cuts to be tried"
                                                  : "two cuts are not enough"),
          ""};
}

// The best over all layouts that the outputs of `cuts` may be in.
Front front_of(Reduction reduction, std::span<const uint32_t> cuts, size_t layouts) {
  reduction.join_all();
  if (cuts.empty()) return reduction.front();
  Front all;
  for (size_t layout = 0; layout < layouts; ++layout) {
    Reduction in_layout = reduction;
    in_layout.cut(cuts.front(), layout);
    const Front front = front_of(std::move(in_layout), cuts.subspan(1), layouts);
    all.insert(all.end(), front.begin(), front.end());
  }
  keep_best<&Label::memory_bytes>(all);
  return all;
}

}  // namespace

bool is_exact(const Instance& instance) { return instance.nodes.size() <= nodes_exact_max; }

std::vector<uint32_t> Reduced::candidates(const Label& label) const {
  std::vector<uint32_t> candidates(nodes);
  choices.write(label.origin, candidates);
  return candidates;
}

Reduced reduce(const Instance& instance, std::span<const uint32_t> cuts, const Limits& limits) {
  WP_ASSERT(limits.quantum_bytes > 0);
  Reduced reduced{.front = {}, .choices = {}, .nodes = instance.nodes.size()};
  Reduction reduction(instance, limits, reduced.choices);
  if (reduction.is_possible()) {
    reduced.front = front_of(std::move(reduction), cuts, instance.layouts);
  }
  return reduced;
}

// The fewest nodes that make the rest series-parallel. They are among the nodes that are left when
// nothing is cut.
Result<std::vector<uint32_t>> cuts_needed(const Instance& instance) {
  const Instance graph = bare(instance);
  Choices choices;
  Reduction reduction(graph, {}, choices);
  reduction.join_all();
  const std::vector<uint32_t> left = reduction.left();
  if (left.empty()) return std::vector<uint32_t>{};
  if (left.size() > nodes_cut_max) return tl::make_unexpected(not_reducible(instance, left));
  for (const uint32_t node : left) {
    if (left_after(reduction, {node}).empty()) return std::vector<uint32_t>{node};
  }
  for (const uint32_t first : left) {
    for (const uint32_t second : left) {
      if (second >= first) break;
      if (left_after(reduction, {first, second}).empty()) return std::vector{first, second};
    }
  }
  return tl::make_unexpected(not_reducible(instance, left));
}

}  // namespace weightpager::plan
