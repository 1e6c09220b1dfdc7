// See timeline.h.
#include "runtime/pipeline/timeline.h"

#include <algorithm>

#include "pager/base/assert.h"

namespace weightpager::pipeline {
namespace {

using Costs = std::span<const UnitCosts>;

// So many inferences in a row are computed. Those before the last bring the rings into their steady
// state.
constexpr size_t in_a_row_until_steady = 3;

// Kernels keep at least this share of the processors, however many reads there are.
constexpr double kernels_share_min = 0.1;

// Goes through the units one after the other; after the last comes the first again.
class UnitsInARow {
 public:
  explicit UnitsInARow(Costs costs) : costs_(costs) {}

  const UnitCosts& next() {
    const UnitCosts& unit = costs_[at_];
    if (++at_ == costs_.size()) {
      at_ = 0;
      pass_begin_ += costs_.size();
    }
    return unit;
  }
  /// The number of the first unit of the pass to which the next unit belongs.
  size_t pass_begin() const { return pass_begin_; }

 private:
  Costs costs_;
  size_t at_ = 0;
  size_t pass_begin_ = 0;
};

// Says when space for each unit becomes free, in order: in a ring, which is freed in order, or in
// the arena overlay.
class Space {
 public:
  Space(Costs costs, uint64_t capacity_bytes)
      : capacity_bytes_(capacity_bytes), next_(costs), oldest_(costs) {}

  // For the next unit in order: how many of the first units must leave before it and all units
  // before it have space.
  size_t leave_for_next() {
    const size_t pass_begin = next_.pass_begin();
    const UnitCosts& unit = next_.next();
    if (unit.overlay) {
      const size_t left = pass_begin + unit.overlay->after_unit + 1;
      return must_leave_ = std::max(must_leave_, left);
    }
    WP_ASSERT(unit.size_bytes <= capacity_bytes_);
    inside_bytes_ += unit.size_bytes;
    for (; inside_bytes_ > capacity_bytes_; ++left_) inside_bytes_ -= ring_bytes(oldest_.next());
    return must_leave_ = std::max(must_leave_, left_);
  }

  // The same as a time. `freed_at(u)`: when unit u gives back its space. Units give it back in
  // order.
  template <typename FreedAt>
  uint64_t free_for_next(FreedAt freed_at) {
    const size_t left = leave_for_next();
    return left == 0 ? 0 : freed_at(left - 1);
  }

 private:
  static uint64_t ring_bytes(const UnitCosts& unit) { return unit.overlay ? 0 : unit.size_bytes; }

  uint64_t capacity_bytes_;
  uint64_t inside_bytes_ = 0;
  UnitsInARow next_;
  UnitsInARow oldest_;  // goes through the units as they leave the ring
  size_t left_ = 0;     // units that have left the ring
  size_t must_leave_ = 0;
};

TimeSpan span_from(uint64_t start_ns, uint64_t duration_ns) {
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
    const auto run = [&](size_t unit, TimeSpan UnitTimes::*stage, uint64_t UnitCosts::*cost_ns) {
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
  uint64_t read_ns = 0, copied_ns = 0, computed_ns = 0;  // ends of the unit before
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

// The time that reads take from the kernels beside them. A read takes processor time while it
// lasts, or for longer if it takes much. The next read takes time only after that.
class Taking {
 public:
  explicit Taking(size_t reads_max) { stretches_.reserve(reads_max); }

  void add(const TimeSpan& read, uint64_t taken_ns) {
    if (taken_ns == 0) return;
    const auto taken = static_cast<double>(taken_ns);
    const double start_ns = std::max(end_ns_, static_cast<double>(read.start_ns));
    const double lasts_ns = std::max(static_cast<double>(read.finish_ns - read.start_ns),
                                     taken / (1 - kernels_share_min));
    end_ns_ = start_ns + lasts_ns;
    stretches_.push_back({start_ns, end_ns_, 1 - taken / lasts_ns});
  }

  // When a kernel ends. Kernels come in order, each after all reads that begin before the kernel
  // ends.
  uint64_t end_of_kernel(uint64_t start_ns, uint64_t kernel_ns) {
    auto now_ns = static_cast<double>(start_ns);
    auto left_ns = static_cast<double>(kernel_ns);
    for (; first_ < stretches_.size(); ++first_) {
      const Stretch& it = stretches_[first_];
      if (it.end_ns <= now_ns) continue;
      const double alone_ns = std::max(0.0, it.start_ns - now_ns);
      if (left_ns <= alone_ns) break;
      left_ns -= alone_ns;
      now_ns += alone_ns;
      const double gets_ahead_ns = (it.end_ns - now_ns) * it.kernels_share;
      if (left_ns <= gets_ahead_ns) {
        return rounded(now_ns + left_ns / it.kernels_share);
      }
      left_ns -= gets_ahead_ns;
      now_ns = it.end_ns;
    }
    return rounded(now_ns + left_ns);
  }

 private:
  // Rounds a number that is not negative, without the call that std::llround() is.
  static uint64_t rounded(double ns) {
    return static_cast<uint64_t>(ns + 0.5);  // NOLINT(bugprone-incorrect-roundings)
  }

  struct Stretch {
    double start_ns;
    double end_ns;
    double kernels_share;
  };
  std::vector<Stretch> stretches_;  // in order, without overlap
  size_t first_ = 0;                // the first one that is not over before the next kernel
  double end_ns_ = 0;
};

// The times of `units` units: `costs` once or several times over. Calls `each(read, kernel)` for
// each unit, in order. `reads` is at least `units`: the reads beyond `units` run beside the last
// kernels, for units that follow. Planners ask for thousands of delays, so this keeps no more than
// they need.
template <typename Each>
void two_stage(Costs costs, size_t units, size_t reads, const Rings& rings, Each each) {
  std::vector<uint64_t> read_ns(reads), computed_ns(units);
  Space ring(costs, rings.host_bytes);
  Taking taking(reads);
  UnitsInARow to_read(costs);
  UnitsInARow to_compute(costs);
  uint64_t now_read_ns = 0, now_computed_ns = 0;
  size_t next_read = 0;
  size_t must_leave = ring.leave_for_next();
  for (size_t i = 0; i < units; ++i) {
    // The reads that may run beside this kernel: all that do not wait for its end or a later one's.
    while (next_read < reads && must_leave <= i) {
      const uint64_t free_ns = must_leave == 0 ? 0 : computed_ns[must_leave - 1];
      const UnitCosts& unit = to_read.next();
      const TimeSpan read = span_from(std::max(now_read_ns, free_ns), unit.read_ns);
      now_read_ns = read_ns[next_read] = read.finish_ns;
      taking.add(read, unit.taken_ns);
      if (++next_read < reads) must_leave = ring.leave_for_next();
    }
    const UnitCosts& unit = to_compute.next();
    const uint64_t start_ns = std::max(read_ns[i] + unit.read_latency_ns, now_computed_ns);
    now_computed_ns = taking.end_of_kernel(start_ns, unit.kernel_ns);
    computed_ns[i] = now_computed_ns;
    each(TimeSpan{read_ns[i] - unit.read_ns, read_ns[i]}, TimeSpan{start_ns, now_computed_ns});
  }
}

std::vector<UnitTimes> two_stage(Costs costs, const Rings& rings) {
  std::vector<UnitTimes> times;
  two_stage(costs, costs.size(), costs.size(), rings,
            [&](const TimeSpan& read, const TimeSpan& kernel) {
              times.push_back({.read = read, .copy = {}, .kernel = kernel});
            });
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
    if (unit.size_bytes > 0) continue;
    unit.read_ns = unit.read_latency_ns = unit.taken_ns = unit.copy_ns = 0;
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
  std::vector<uint64_t> computed_ns;
  computed_ns.reserve(in_a_row_until_steady * costs.size());
  if (pipeline == Pipeline::two_stage) {
    const size_t units = in_a_row_until_steady * costs.size();
    two_stage(
        without_empty_moves(costs), units, units + costs.size(), rings,
        [&](const TimeSpan&, const TimeSpan& kernel) { computed_ns.push_back(kernel.finish_ns); });
  } else {
    std::vector<UnitCosts> in_a_row;
    for (size_t i = 0; i < in_a_row_until_steady; ++i) {
      in_a_row.insert(in_a_row.end(), costs.begin(), costs.end());
    }
    for (const UnitTimes& it : timeline(pipeline, in_a_row, rings).units) {
      computed_ns.push_back(it.kernel.finish_ns);
    }
  }
  const size_t first_of_last = (in_a_row_until_steady - 1) * costs.size();
  return std::max(computed_ns.back() - computed_ns[first_of_last - 1], least_delay_ns(costs));
}

void LeastWork::add(const UnitCosts& unit) {
  kernels_ns += unit.kernel_ns;
  if (unit.size_bytes == 0) return;
  reads_ns += unit.read_ns;
  taken_ns += unit.taken_ns;
}

void LeastWork::pin(const UnitCosts& unit) {
  if (unit.size_bytes == 0) return;
  reads_ns -= unit.read_ns;
  taken_ns -= unit.taken_ns;
}

LeastWork least_work(Costs costs) {
  LeastWork work;
  for (const UnitCosts& unit : costs) work.add(unit);
  return work;
}

uint64_t least_delay_ns(Costs costs) { return least_work(costs).delay_ns(); }

uint64_t least_delay_in_order_ns(Costs costs, uint64_t ahead_ns) {
  uint64_t after_ns = 0;
  for (const UnitCosts& unit : costs) after_ns += unit.kernel_ns;
  uint64_t computed_ns = 0;
  // The worst row that ends here: the kernels before it, and its reads.
  uint64_t worst_ns = 0;
  uint64_t least_ns = 0;
  for (const UnitCosts& unit : costs) {
    worst_ns = std::max(worst_ns, computed_ns) + (unit.size_bytes > 0 ? unit.read_ns : 0);
    computed_ns += unit.kernel_ns;
    after_ns -= unit.kernel_ns;
    least_ns = std::max(least_ns, worst_ns + after_ns);
  }
  return least_ns - std::min(least_ns, ahead_ns);
}

std::vector<WorkUnit> work_units(Costs costs) {
  std::vector<WorkUnit> units;
  for (const UnitCosts& unit : costs) {
    units.push_back({.size_bytes = unit.size_bytes, .overlay = unit.overlay});
  }
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
