#include "runtime/plan/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/plan/pareto.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {
namespace {

// What to try as the largest workspace: values of candidates, the largest of each quantum.
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

// Holding costs nothing: a front is then a single label.
Instance without_holding(Instance instance) {
  for (Node& node : instance.nodes) {
    for (Candidate& it : node.candidates) it.held_bytes = 0;
  }
  return instance;
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

Result<std::vector<Selection>> pareto_front(const Instance& instance, uint64_t quantum_bytes) {
  std::vector<Selection> front;
  for (const uint64_t workspace : workspaces(instance, quantum_bytes)) {
    const auto reduced =
        reduce(instance, {.workspace_bytes_max = workspace, .quantum_bytes = quantum_bytes});
    if (!reduced) return tl::make_unexpected(reduced.error());
    const std::vector<Selection> before = front;
    for (const Label& label : reduced->front) {
      if (is_beaten(before, label.memory_bytes + workspace, label.time_ns)) continue;
      front.push_back(evaluate(instance, reduced->candidates(label)));
    }
    keep_best<&Selection::memory_bytes>(front);
  }
  return front;
}

Result<Selection> fastest(const Instance& instance, uint64_t memory_bytes_max,
                          uint64_t quantum_bytes) {
  std::optional<Selection> best;
  for (const uint64_t workspace : workspaces(instance, quantum_bytes)) {
    if (workspace > memory_bytes_max) break;
    auto reduced = reduce(instance, {.workspace_bytes_max = workspace,
                                     .held_bytes_max = memory_bytes_max - workspace,
                                     .quantum_bytes = quantum_bytes});
    if (!reduced) return forward_error(std::move(reduced));
    if (reduced->front.empty()) continue;
    Selection selection = last_of(instance, *reduced);
    if (!best || is_better(selection, *best)) best = std::move(selection);
  }
  if (best) return *std::move(best);
  if (const auto cuts = cuts_needed(instance); !cuts) {
    return tl::make_unexpected(cuts.error());
  }
  // Rounding can hide the last feasible ones, of which there are so few that none is needed.
  if (quantum_bytes > 1) return fastest(instance, memory_bytes_max);
  return tl::make_unexpected(budget_too_small(instance, memory_bytes_max));
}

Result<Selection> least_workspace(const Instance& instance, double time_ns_max) {
  const Instance free_to_hold = without_holding(instance);
  const std::vector<uint64_t> values = workspaces(instance, 1);
  // The last value allows everything: either that is fast enough, or nothing is.
  auto everything = reduce(free_to_hold, {});
  if (!everything) return forward_error(std::move(everything));
  Selection best = last_of(instance, *everything);
  if (best.time_ns > time_ns_max) {
    return tl::make_unexpected(time_too_short(time_ns_max, best.time_ns));
  }
  size_t begin = 0;
  size_t end = values.size() - 1;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const auto reduced = reduce(free_to_hold, {.workspace_bytes_max = values[middle]});
    WP_ASSERT(reduced);
    const bool is_enough = !reduced->front.empty() && reduced->front.back().time_ns <= time_ns_max;
    if (is_enough) {
      best = last_of(instance, *reduced);
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return best;
}

}  // namespace weightpager::plan
