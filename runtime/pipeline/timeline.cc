// See timeline.h.
#include "runtime/pipeline/timeline.h"

#include <algorithm>

#include "pager/base/assert.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::span<const UnitCosts>;

// Those before the last bring the rings into the state in which they are from then on.
constexpr size_t in_a_row_until_steady = 3;

// When space for one unit after the other becomes free in a ring that is freed in order.
class Space {
 public:
  Space(Costs costs, uint64_t capacity_bytes) : costs_(costs), capacity_bytes_(capacity_bytes) {}

  // The next unit in order; `freed_at(u)`: when unit u gives back its space.
  template <typename FreedAt>
  uint64_t free_for_next(FreedAt freed_at) {
    WP_ASSERT(costs_[next_].size_bytes <= capacity_bytes_);
    inside_bytes_ += costs_[next_++].size_bytes;
    while (inside_bytes_ > capacity_bytes_) {
      inside_bytes_ -= costs_[oldest_].size_bytes;
      free_ns_ = freed_at(oldest_++);
    }
    return free_ns_;
  }

 private:
  Costs costs_;
  uint64_t capacity_bytes_;
  uint64_t inside_bytes_ = 0;  // of units [oldest_, next_)
  size_t next_ = 0;
  size_t oldest_ = 0;
  uint64_t free_ns_ = 0;
};

Span span_from(uint64_t start_ns, uint64_t duration_ns) {
  return {start_ns, start_ns + duration_ns};
}

std::vector<UnitTimes> preload(Costs costs) {
  std::vector<UnitTimes> times(costs.size());
  uint64_t now_ns = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    times[i].kernel = span_from(now_ns, costs[i].kernel_ns);
    now_ns = times[i].kernel.finish_ns;
  }
  return times;
}

std::vector<UnitTimes> sequential(Costs costs) {
  std::vector<UnitTimes> times(costs.size());
  uint64_t now_ns = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    times[i].read = span_from(now_ns, costs[i].read_ns);
    times[i].copy = span_from(times[i].read.finish_ns, costs[i].copy_ns);
    times[i].kernel = span_from(times[i].copy.finish_ns, costs[i].kernel_ns);
    now_ns = times[i].kernel.finish_ns;
  }
  return times;
}

std::vector<UnitTimes> synchronous(Costs costs) {
  const size_t units = costs.size();
  std::vector<UnitTimes> times(units);
  uint64_t now_ns = 0;
  for (size_t cycle = 0; cycle < units + 2; ++cycle) {
    uint64_t longest_ns = 0;
    const auto run = [&](size_t unit, Span UnitTimes::*stage, uint64_t UnitCosts::*cost_ns) {
      times[unit].*stage = span_from(now_ns, costs[unit].*cost_ns);
      longest_ns = std::max(longest_ns, costs[unit].*cost_ns);
    };
    if (cycle < units) run(cycle, &UnitTimes::read, &UnitCosts::read_ns);
    if (cycle >= 1 && cycle - 1 < units) run(cycle - 1, &UnitTimes::copy, &UnitCosts::copy_ns);
    if (cycle >= 2) run(cycle - 2, &UnitTimes::kernel, &UnitCosts::kernel_ns);
    now_ns += longest_ns;
  }
  return times;
}

std::vector<UnitTimes> asynchronous(Costs costs, const Rings& rings) {
  std::vector<UnitTimes> times(costs.size());
  Space host(costs, rings.host_bytes);
  Space device(costs, rings.device_bytes);
  uint64_t read_ns = 0, copied_ns = 0, computed_ns = 0;  // when the unit before was
  for (size_t i = 0; i < costs.size(); ++i) {
    const uint64_t host_free_ns =
        host.free_for_next([&](size_t u) { return times[u].copy.finish_ns; });
    times[i].read = span_from(std::max(read_ns, host_free_ns), costs[i].read_ns);
    read_ns = times[i].read.finish_ns;

    const uint64_t device_free_ns =
        device.free_for_next([&](size_t u) { return times[u].kernel.finish_ns; });
    times[i].copy = span_from(std::max({read_ns, copied_ns, device_free_ns}), costs[i].copy_ns);
    copied_ns = times[i].copy.finish_ns;

    times[i].kernel = span_from(std::max(copied_ns, computed_ns), costs[i].kernel_ns);
    computed_ns = times[i].kernel.finish_ns;
  }
  return times;
}

std::vector<UnitTimes> two_stage(Costs costs, const Rings& rings) {
  std::vector<UnitTimes> times(costs.size());
  Space ring(costs, rings.host_bytes);
  uint64_t read_ns = 0, computed_ns = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const uint64_t free_ns =
        ring.free_for_next([&](size_t u) { return times[u].kernel.finish_ns; });
    times[i].read = span_from(std::max(read_ns, free_ns), costs[i].read_ns);
    read_ns = times[i].read.finish_ns;
    const uint64_t here_ns = read_ns + costs[i].read_latency_ns;
    times[i].kernel = span_from(std::max(here_ns, computed_ns), costs[i].kernel_ns);
    computed_ns = times[i].kernel.finish_ns;
  }
  return times;
}

std::vector<UnitTimes> times_of(Pipeline pipeline, Costs costs, const Rings& rings) {
  switch (pipeline) {
    case Pipeline::preload:
      return preload(costs);
    case Pipeline::sequential:
      return sequential(costs);
    case Pipeline::synchronous:
      return synchronous(costs);
    case Pipeline::asynchronous:
      return asynchronous(costs, rings);
    case Pipeline::two_stage:
      return two_stage(costs, rings);
  }
  WP_ASSERT(false);
}

// Nothing is read or copied for a unit without bytes: it only waits its turn.
std::vector<UnitCosts> without_empty_moves(Costs costs) {
  std::vector<UnitCosts> moved(costs.begin(), costs.end());
  for (UnitCosts& unit : moved) {
    if (unit.size_bytes == 0) unit.read_ns = unit.read_latency_ns = unit.copy_ns = 0;
  }
  return moved;
}

}  // namespace

Timeline timeline(Pipeline pipeline, Costs costs, const Rings& rings) {
  WP_ASSERT(!costs.empty());
  Timeline result;
  result.units = times_of(pipeline, without_empty_moves(costs), rings);
  result.finish_ns = result.units.back().kernel.finish_ns;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (costs[i].size_bytes == 0) result.units[i].read = result.units[i].copy = {};
  }
  return result;
}

uint64_t delay_ns(Pipeline pipeline, Costs costs, const Rings& rings, Inferences inferences) {
  if (inferences == Inferences::one_by_one) return timeline(pipeline, costs, rings).delay_ns();
  std::vector<UnitCosts> in_a_row;
  in_a_row.reserve(in_a_row_until_steady * costs.size());
  for (size_t i = 0; i < in_a_row_until_steady; ++i) {
    in_a_row.insert(in_a_row.end(), costs.begin(), costs.end());
  }
  const Timeline times = timeline(pipeline, in_a_row, rings);
  const size_t first_of_last = (in_a_row_until_steady - 1) * costs.size();
  const uint64_t last_ns = times.finish_ns - times.units[first_of_last - 1].kernel.finish_ns;
  return std::max(last_ns, least_delay_ns(costs));
}

uint64_t least_delay_ns(Costs costs) {
  uint64_t reads_ns = 0;
  uint64_t kernels_ns = 0;
  for (const UnitCosts& unit : costs) {
    if (unit.size_bytes > 0) reads_ns += unit.read_ns;
    kernels_ns += unit.kernel_ns;
  }
  return std::max(reads_ns, kernels_ns);
}

std::vector<WorkUnit> work_units(Costs costs) {
  std::vector<WorkUnit> units;
  for (const UnitCosts& unit : costs) units.push_back({.size_bytes = unit.size_bytes});
  return units;
}

std::vector<UnitCosts> after_first_pass(Costs costs, const std::vector<bool>& is_pinned) {
  WP_ASSERT(is_pinned.size() == costs.size());
  std::vector<UnitCosts> later(costs.begin(), costs.end());
  for (size_t i = 0; i < later.size(); ++i) {
    if (is_pinned[i]) later[i] = {.kernel_ns = later[i].kernel_ns};
  }
  return later;
}

uint64_t bytes_per_pass(Costs costs) {
  uint64_t bytes = 0;
  for (const UnitCosts& unit : costs) bytes += unit.size_bytes;
  return bytes;
}

}  // namespace weightpager::pipeline
