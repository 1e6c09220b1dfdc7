// The answers: which candidates to run within a budget, and the whole front of budgets.
//
// Problem. Held memory adds up over nodes, but workspace is shared. So the memory of a selection is
// a sum plus a maximum, which no table of sums can hold.
//
// Idea. Fix the maximum: leave out candidates that need more workspace, and the rest is a sum
// (series_parallel.h). Only values that some candidate has need to be tried. For one budget only
// few of these are tried: the time with a larger workspace and more to hold is a bound for a whole
// range of values. Where nothing is held, bisection finds the least workspace that is fast enough.
//
// With a quantum q, values of workspace that share a multiple of q are tried once. The selection
// found is then at least as fast as any selection that takes ((nodes + 1) · q) less. q = 1 is
// exact.
//
// Cost. One reduction per value of workspace that is tried: some 25 ms of processor time for the
// whole front of GoogLeNet's 57 convolutions with 57 candidates each, where all is held
// (bench/selection_bench.cc, AMD EPYC, 2026-11-22).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

/// Selections of which none is better than another in memory and time: memory rises, time falls.
/// The front begins at the least memory there can be, and is exact where nothing is held. Fails if
/// the network is not series-parallel, as do the other functions here. Where time is over before
/// the end, fewer workspaces are tried.
Result<std::vector<Selection>> pareto_front(const Instance& instance, uint64_t quantum_bytes = 1,
                                            const TimeLimit& limit = {});

/// The fastest selection within a budget. The error of a budget that is too small names the least
/// that is feasible, and what forces it. Where time is over before the end, the best selection that
/// was found by then.
Result<Selection> fastest(const Instance& instance, uint64_t memory_bytes_max,
                          uint64_t quantum_bytes = 1, const TimeLimit& limit = {});

/// The smallest workspace with which a selection takes no longer than `time_ns_max`, whatever it
/// holds: the paper's equation 15. Returns the fastest selection with that workspace.
Result<Selection> least_workspace(const Instance& instance, double time_ns_max);

/// The selection of a front that needs the least memory and takes no longer than `time_ns_max`: the
/// paper's equation 14. Where all memory is workspace, this is equation 15. `front` is not empty;
/// memory rises, time falls.
Result<Selection> least_memory_on_front(std::span<const Selection> front, double time_ns_max);

/// The error of all solvers for a budget that is too small.
Error budget_too_small(const Instance& instance, uint64_t memory_bytes_max);
/// The error of all solvers for a time that is too short; the fastest selection takes
/// `least_time_ns`.
Error time_too_short(double time_ns_max, double least_time_ns);

}  // namespace weightpager::plan
