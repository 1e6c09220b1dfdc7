#include "runtime/plan/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/plan/pareto.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

// Rounding to a quantum may hide selections that fit: then a quantum so many times finer is tried.
constexpr uint64_t finer_quantum = 4;

// The values to try as the largest workspace: those of candidates, the largest of each quantum.
std::vector<uint64_t> workspaces(const Instance& instance, uint64_t quantum_bytes) {
  std::vector<uint64_t> values;
  for (const Node& node : instance.nodes) {
    for (const Candidate& it : node.candidates) values.push_back(it.workspace_bytes);
  }
  std::sort(values.begin(), values.end());
  std::vector<uint64_t> largest;
  for (const uint64_t value : values) {
    const bool shares_a_quantum = !largest.empty() && round_up(largest.back(), quantum_bytes) ==
                                                          round_up(value, quantum_bytes);
    if (shares_a_quantum) {
      largest.back() = value;
    } else {
      largest.push_back(value);
    }
  }
  return largest;
}

// The fastest is a front's last label.
Selection last_of(const Instance& instance, const Reduced& reduced) {
  WP_ASSERT(!reduced.front.empty());
  return evaluate(instance, reduced.candidates(reduced.front.back()));
}

// The instance with nothing held: a front is then a single label.
Instance without_holding(Instance instance) {
  for (Node& node : instance.nodes) {
    for (Candidate& it : node.candidates) it.held_bytes = 0;
  }
  return instance;
}

bool holds_nothing(const Instance& instance) {
  return std::ranges::all_of(instance.nodes, [](const Node& node) {
    return std::ranges::all_of(node.candidates,
                               [](const Candidate& it) { return it.held_bytes == 0; });
  });
}

// The front where nothing is held, exactly: from the fastest selection down, each with less
// workspace than the one before.
std::vector<Selection> front_of_workspaces(const Instance& instance, std::span<const uint32_t> cuts,
                                           const TimeLimit& limit) {
  std::vector<Selection> front;
  const uint64_t least_bytes = least_memory_bytes(instance);
  uint64_t workspace_bytes_max = UINT64_MAX;
  while (true) {
    const Reduced reduced =
        reduce(instance, cuts, {.workspace_bytes_max = workspace_bytes_max, .time = &limit});
    if (reduced.front.empty()) break;
    front.push_back(last_of(instance, reduced));
    if (front.back().workspace_bytes <= least_bytes) break;
    // Out of time: of all that is left only the end.
    workspace_bytes_max = limit.is_over() ? least_bytes : front.back().workspace_bytes - 1;
  }
  keep_best<&Selection::memory_bytes>(front);
  return front;
}

bool is_better(const Selection& left, const Selection& right) {
  if (left.time_ns != right.time_ns) return left.time_ns < right.time_ns;
  return left.memory_bytes() < right.memory_bytes();
}

// Whether `front` has something that takes no more memory and no more time.
bool is_beaten(const std::vector<Selection>& front, uint64_t memory_bytes, double time_ns) {
  const auto above = std::upper_bound(
      front.begin(), front.end(), memory_bytes,
      [](uint64_t bytes, const Selection& it) { return bytes < it.memory_bytes(); });
  return above != front.begin() && std::prev(above)->time_ns <= time_ns;
}

// The fastest selection within a budget, by a search over values of workspace.
//
// For a range of values, one reduction finds the fastest selection with the range's largest
// workspace, and with all memory but the range's smallest workspace to hold. No selection of the
// range is faster. Mostly this one fits the budget and is the best of its range, or it is slower
// than one found elsewhere. Only where neither holds is the range divided.
class FastestSearch {
 public:
  FastestSearch(const Instance& instance, std::span<const uint32_t> cuts, uint64_t memory_bytes_max,
                uint64_t quantum_bytes, const TimeLimit& limit)
      : instance_(instance),
        cuts_(cuts),
        memory_bytes_max_(memory_bytes_max),
        quantum_bytes_(quantum_bytes),
        limit_(limit),
        values_(workspaces(instance, quantum_bytes)) {
    std::erase_if(values_, [&](uint64_t value) { return value > memory_bytes_max; });
  }

  std::optional<Selection> run() {
    look_at(0, values_.size());
    return std::move(best_);
  }

 private:
  // values_[begin] to values_[end - 1]
  void look_at(size_t begin, size_t end) {
    if (begin == end || (best_ && limit_.is_over())) return;
    const Reduced reduced = reduce(instance_, cuts_,
                                   {.workspace_bytes_max = values_[end - 1],
                                    .held_bytes_max = memory_bytes_max_ - values_[begin],
                                    .quantum_bytes = quantum_bytes_,
                                    .time = &limit_});
    if (reduced.front.empty()) return;
    if (best_ && reduced.front.back().time_ns > best_->time_ns) return;
    Selection selection = last_of(instance_, reduced);
    if (selection.memory_bytes() > memory_bytes_max_) {
      const size_t middle = begin + (end - begin) / 2;
      look_at(middle, end);
      look_at(begin, middle);
      return;
    }
    // With less workspace, another selection may be as fast and take less.
    const auto same = std::lower_bound(values_.begin(), values_.end(), selection.workspace_bytes);
    const auto rest = std::min(end - 1, static_cast<size_t>(same - values_.begin()));
    if (!best_ || is_better(selection, *best_)) best_ = std::move(selection);
    if (rest > begin) look_at(begin, rest);
  }

  const Instance& instance_;
  const std::span<const uint32_t> cuts_;
  const uint64_t memory_bytes_max_;
  const uint64_t quantum_bytes_;
  const TimeLimit& limit_;
  std::vector<uint64_t> values_;
  std::optional<Selection> best_;
};

std::string largest_need(const Instance& instance) {
  uint64_t most = 0;
  size_t which = 0;
  for (size_t i = 0; i < instance.nodes.size(); ++i) {
    uint64_t least = UINT64_MAX;
    for (const Candidate& it : instance.nodes[i].candidates) {
      least = std::min(least, it.held_bytes + it.workspace_bytes);
    }
    if (least >= most) {
      most = least;
      which = i;
    }
  }
  return fmt::format("{} alone needs {} bytes", name_of(instance, which), most);
}

}  // namespace

Result<Selection> least_memory_on_front(std::span<const Selection> front, double time_ns_max) {
  for (const Selection& it : front) {
    if (it.time_ns <= time_ns_max) return it;
  }
  return tl::make_unexpected(time_too_short(time_ns_max, front.back().time_ns));
}

Error budget_too_small(const Instance& instance, uint64_t memory_bytes_max) {
  const uint64_t least = least_memory_bytes(instance);
  return {fmt::format("a budget of {} ({} bytes) is too small: the least that any selection takes "
                      "is {} ({} bytes), and {}",
                      format_size(memory_bytes_max), memory_bytes_max, format_size(least), least,
                      largest_need(instance)),
          fmt::format("give a budget of at least {} bytes", least)};
}

Error time_too_short(double time_ns_max, double least_time_ns) {
  return {fmt::format("no selection takes only {:.6f} ms: the fastest takes {:.6f} ms",
                      time_ns_max / 1e6, least_time_ns / 1e6),
          "allow more time"};
}

Result<std::vector<Selection>> pareto_front(const Instance& instance, uint64_t quantum_bytes,
                                            const TimeLimit& limit) {
  const auto cuts = cuts_needed(instance);
  if (!cuts) return tl::make_unexpected(cuts.error());
  if (holds_nothing(instance)) return front_of_workspaces(instance, *cuts, limit);
  std::vector<Selection> front;
  // Rounding may hide where the front begins, so the first point is found by itself.
  auto least = fastest(instance, least_memory_bytes(instance), quantum_bytes, limit);
  if (!least) return forward_error(std::move(least));
  front.push_back(std::move(*least));
  const std::vector<uint64_t> values = workspaces(instance, quantum_bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    // The last value allows everything, so its front ends with the fastest selection.
    if (limit.is_over()) i = values.size() - 1;
    const uint64_t workspace = values[i];
    const Reduced reduced =
        reduce(instance, *cuts,
               {.workspace_bytes_max = workspace, .quantum_bytes = quantum_bytes, .time = &limit});
    const std::vector<Selection> before = front;
    for (const Label& label : reduced.front) {
      if (is_beaten(before, label.memory_bytes + workspace, label.time_ns)) continue;
      front.push_back(evaluate(instance, reduced.candidates(label)));
    }
    keep_best<&Selection::memory_bytes>(front);
  }
  return front;
}

Result<Selection> fastest(const Instance& instance, uint64_t memory_bytes_max,
                          uint64_t quantum_bytes, const TimeLimit& limit) {
  const auto cuts = cuts_needed(instance);
  if (!cuts) return tl::make_unexpected(cuts.error());
  if (memory_bytes_max < least_memory_bytes(instance)) {
    return tl::make_unexpected(budget_too_small(instance, memory_bytes_max));
  }
  // Rounding can hide the last selections that fit: a finer quantum finds them.
  while (true) {
    auto found = FastestSearch(instance, *cuts, memory_bytes_max, quantum_bytes, limit).run();
    if (found) return *std::move(found);
    WP_ASSERT(quantum_bytes > 1);
    quantum_bytes = std::max<uint64_t>(quantum_bytes / finer_quantum, 1);
  }
}

Result<Selection> least_workspace(const Instance& instance, double time_ns_max) {
  const auto cuts = cuts_needed(instance);
  if (!cuts) return tl::make_unexpected(cuts.error());
  const Instance free_to_hold = without_holding(instance);
  const std::vector<uint64_t> values = workspaces(instance, 1);
  // The last value allows everything: its selection is fast enough, or none is.
  Selection best = last_of(instance, reduce(free_to_hold, *cuts, {}));
  if (best.time_ns > time_ns_max) {
    return tl::make_unexpected(time_too_short(time_ns_max, best.time_ns));
  }
  size_t begin = 0;
  size_t end = values.size() - 1;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const Reduced reduced = reduce(free_to_hold, *cuts, {.workspace_bytes_max = values[middle]});
    const bool is_enough = !reduced.front.empty() && reduced.front.back().time_ns <= time_ns_max;
    if (is_enough) {
      best = last_of(instance, reduced);
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return best;
}

}  // namespace weightpager::plan
