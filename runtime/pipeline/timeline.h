// Equations for the times of a pipeline: when a schedule (schedule.h) starts and ends each read,
// copy and kernel, if each takes as long as it was measured to take.
//
// Idea. A start is the latest of the events that it waits for, so a pipeline is a recursion of
// maxima and sums over the units. With s, r, c, k the size and the read, copy and kernel times of
// unit i, and a(i) the last unit that must leave a ring before unit i fits into it:
//
//   asynchronous   R(i) starts at max(R(i−1) ends, C(a_host(i)) ends)
//                  C(i) starts at max(R(i) ends, C(i−1) ends, K(a_device(i)) ends)
//                  K(i) starts at max(C(i) ends, K(i−1) ends)
//   two-stage      without C: R(i) waits for K(a(i)), K(i) for R(i); an overlaid unit is in no
//                  ring, and its a(i) is its `after_unit`
//   synchronous    cycle t lasts max(r(t), c(t−1), k(t−2)), in t = 1 … N + 2
//   sequential     the sum of everything; preload: of the kernels
//
// Reading also takes processor time (taken_ns): a kernel runs more slowly while a read is under
// way. While no kernel runs, this costs nothing.
//
// Rings are mirrored, so only bytes count; then a delay never grows when a ring does, and the
// smallest window for a delay is found by bisection (search.h).
//
// Cost: O(N).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

/// The costs of one unit that has disk, copy engine and compute engine to itself. For a pinned
/// unit, size, read and copy are 0 from the second pass on (`after_first_pass`).
struct UnitCosts {
  /// Rounded as in WorkUnit. 0: there is nothing to read or copy, whatever read_ns and copy_ns say.
  uint64_t size_bytes = 0;
  uint64_t read_ns = 0;
  uint64_t copy_ns = 0;
  uint64_t kernel_ns = 0;
  /// `two_stage`: the time from the read's end, when the disk begins the next read, until the
  /// unit's kernel can begin.
  uint64_t read_latency_ns = 0;
  /// `two_stage`: how much later kernels end because of this read, if kernels run beside all of it.
  /// This time is spread evenly over the read, and beyond the read's end where kernels would
  /// otherwise keep less than a tenth of the processors.
  uint64_t taken_ns = 0;
  /// As in WorkUnit.
  std::optional<Overlay> overlay = {};
};

struct TimeSpan {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  bool operator==(const TimeSpan&) const = default;
};

/// If something does not happen (a read without bytes, a copy in `two_stage`), both of its times
/// are 0.
struct UnitTimes {
  TimeSpan read;
  TimeSpan copy;
  TimeSpan kernel;
  bool operator==(const UnitTimes&) const = default;
};

/// The times of one inference.
struct Timeline {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  std::vector<UnitTimes> units;

  uint64_t delay_ns() const { return finish_ns - start_ns; }
};

/// The timeline of one inference that starts at 0 with empty rings. For several inferences back to
/// back, with reads across inferences, pass the units of all of them in a row. `preload`: all
/// weights are in memory. Every unit must fit its rings (`smallest_rings`).
Timeline timeline(Pipeline pipeline, std::span<const UnitCosts> costs, const Rings& rings);

/// How inferences follow each other. `one_by_one`: each begins with empty rings. `in_a_row`: each
/// begins when the one before ends, and finds in the rings the units that were read while that one
/// computed.
enum class Inferences { one_by_one, in_a_row };

/// The delay only. `in_a_row`: the delay of one inference among many; not for `preload`.
uint64_t delay_ns(Pipeline pipeline, std::span<const UnitCosts> costs, const Rings& rings,
                  Inferences inferences = Inferences::one_by_one);

/// The work of an inference, whatever the rings, as a lower bound of its delay. Each inference, or
/// the average of several in a row, reads and computes every unit once. Two reads never overlap,
/// and two kernels never do. Processor time that reads take delays kernels, or is spent while they
/// wait. Not for `preload`, which reads nothing.
struct LeastWork {
  uint64_t reads_ns = 0;
  uint64_t kernels_ns = 0;
  /// Processor time that reads take from kernels.
  uint64_t taken_ns = 0;

  void add(const UnitCosts& unit);
  /// A unit that was added is in memory from now on.
  void pin(const UnitCosts& unit);
  uint64_t delay_ns() const { return std::max(reads_ns, kernels_ns + taken_ns); }
};

LeastWork least_work(std::span<const UnitCosts> costs);
uint64_t least_delay_ns(std::span<const UnitCosts> costs);

/// A lower bound of the delay that uses the order of the units. Take any units in a row. When the
/// kernels before the row have ended, at most `ahead_ns` of the row's reads are done. When the
/// row's last read ends, no kernel after the row has begun. So the delay is at least the time of
/// the kernels before the row, of its reads less `ahead_ns`, and of the kernels after it. Returns
/// the largest of these bounds over all rows.
uint64_t least_delay_in_order_ns(std::span<const UnitCosts> costs, uint64_t ahead_ns);

/// The units for a schedule, none of them pinned.
std::vector<WorkUnit> work_units(std::span<const UnitCosts> costs);

/// The costs of the units from the second pass on, when the pinned units are in memory.
std::vector<UnitCosts> after_first_pass(std::span<const UnitCosts> costs,
                                        const std::vector<bool>& is_pinned);

/// Bytes that one pass reads.
uint64_t bytes_per_pass(std::span<const UnitCosts> costs);

}  // namespace weightpager::pipeline
