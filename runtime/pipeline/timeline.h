// When everything happens in a pipeline, as equations: what a schedule (schedule.h) amounts to when
// each read, copy and kernel takes as long as it was measured to take.
//
// Idea. A start is the latest of the events that it waits for, so a pipeline is a recursion of
// maxima and sums over the units. With s, r, c, k the size and the read, copy and kernel times of
// unit i, and a(i) the last unit that must have left a ring before unit i fits into it:
//
//   asynchronous   R(i) starts at max(R(i−1) ends, C(a_host(i)) ends)
//                  C(i) starts at max(R(i) ends, C(i−1) ends, K(a_device(i)) ends)
//                  K(i) starts at max(C(i) ends, K(i−1) ends)
//   two-stage      without C: R(i) waits for K(a(i)), K(i) for R(i); an overlaid unit is in no
//                  ring, and its a(i) is its `after_unit`
//   synchronous    cycle t lasts max(r(t), c(t−1), k(t−2)), in t = 1 … N + 2
//   sequential     the sum of everything; preload: of the kernels
//
// Reading takes from the processors, too (taken_ns): a kernel gets ahead more slowly while a read
// is under way, and nothing is lost while no kernel runs.
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

/// What one unit costs, alone on its disk, copy engine and compute engine. Also one that is pinned:
/// then size, read and copy are 0 from the second pass on (`after_first_pass`).
struct UnitCosts {
  /// Rounded as in WorkUnit. 0: there is nothing to read or copy, whatever read_ns and copy_ns say.
  uint64_t size_bytes = 0;
  uint64_t read_ns = 0;
  uint64_t copy_ns = 0;
  uint64_t kernel_ns = 0;
  /// `two_stage`: from the read's end, when the disk goes on to the next, until a kernel can begin.
  uint64_t read_latency_ns = 0;
  /// `two_stage`: how much later kernels end for this read if they run beside all of it. It is
  /// spread over the read, and beyond its end where that would leave kernels less than a tenth.
  uint64_t taken_ns = 0;
  /// As in WorkUnit.
  std::optional<Overlay> overlay = {};
};

struct TimeSpan {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  bool operator==(const TimeSpan&) const = default;
};

/// Of what does not happen (a read without bytes, a copy in `two_stage`) both times are 0.
struct UnitTimes {
  TimeSpan read;
  TimeSpan copy;
  TimeSpan kernel;
  bool operator==(const UnitTimes&) const = default;
};

/// One inference.
struct Timeline {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  std::vector<UnitTimes> units;

  uint64_t delay_ns() const { return finish_ns - start_ns; }
};

/// One inference that starts with empty rings at 0. Several back to back, with reads across
/// inferences, are the timeline of their units in a row. `preload`: everything is in memory.
/// Every unit fits its rings (`smallest_rings`).
Timeline timeline(Pipeline pipeline, std::span<const UnitCosts> costs, const Rings& rings);

/// How inferences follow each other: each begins with empty rings; or as the one before ends, with
/// reads across them, so that it finds in the rings what was read while that one computed.
enum class Inferences { one_by_one, in_a_row };

/// The same, when only the delay is asked for; `in_a_row` of one among many. Not of `preload` in a
/// row.
uint64_t delay_ns(Pipeline pipeline, std::span<const UnitCosts> costs, const Rings& rings,
                  Inferences inferences = Inferences::one_by_one);

/// What an inference has to do, whatever the rings: in each, or on average, everything is read and
/// computed once, neither two reads nor two kernels are at work together, and what reads take is
/// lost to kernels, or spent waiting. Not of `preload`, which reads nothing.
struct LeastWork {
  uint64_t reads_ns = 0;
  uint64_t kernels_ns = 0;
  /// From kernels, by reads.
  uint64_t taken_ns = 0;

  void add(const UnitCosts& unit);
  /// One that was added: from now on it is in memory.
  void pin(const UnitCosts& unit);
  uint64_t delay_ns() const { return std::max(reads_ns, kernels_ns + taken_ns); }
};

LeastWork least_work(std::span<const UnitCosts> costs);
uint64_t least_delay_ns(std::span<const UnitCosts> costs);

/// The same, by order. Of units in a row: when the first begins, those before it were computed, and
/// `ahead_ns` of the row's reads are done at most; when the last is read, those after it are not
/// computed. The worst row.
uint64_t least_delay_in_order_ns(std::span<const UnitCosts> costs, uint64_t ahead_ns);

/// The units that a schedule is made of, none pinned.
std::vector<WorkUnit> work_units(std::span<const UnitCosts> costs);

/// What the units cost once those that are pinned are in memory.
std::vector<UnitCosts> after_first_pass(std::span<const UnitCosts> costs,
                                        const std::vector<bool>& is_pinned);

/// Bytes that one pass reads.
uint64_t bytes_per_pass(std::span<const UnitCosts> costs);

}  // namespace weightpager::pipeline
