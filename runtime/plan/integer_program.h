// Selection by integer programming, with CBC: for networks that are far from series-parallel, and
// to check what the exact planner finds.
//
// A binary per node and candidate. For each edge, how much of the tensor goes from which layout to
// which, as a transport: what leaves a layout is what candidates with that layout out send, what
// arrives is what candidates with that layout in take. These need not be integers, and the linear
// relaxation is tight and small; the paper's product of two binaries per pair of candidates
// (equation 11) takes CBC two hundred times as long.
//
// Where the build has no CBC, these fail and say what to install (no_cbc.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

bool has_integer_programming();

/// The fastest within a budget. Once the limit is over: the fastest found so far, or the smallest.
Result<Selection> fastest_by_cbc(const Instance& instance, uint64_t memory_bytes_max,
                                 const TimeLimit& limit = {});

/// The least memory with which a selection takes no longer than that.
Result<Selection> least_memory_by_cbc(const Instance& instance, double time_ns_max);

/// By series-parallel reduction, and where that is impossible by CBC.
Result<Selection> fastest_of_any_network(const Instance& instance, uint64_t memory_bytes_max,
                                         uint64_t quantum_bytes = 1, const TimeLimit& limit = {});

/// The front; of networks that only CBC can plan, its points at `budgets` budgets, evenly apart,
/// as far as there is time.
Result<std::vector<Selection>> front_of_any_network(const Instance& instance,
                                                    uint64_t quantum_bytes, uint32_t budgets,
                                                    const TimeLimit& limit = {});

/// The fastest within a budget. `front` is one of the same network, and has it as a point from then
/// on: points of a front that is not exact may be faster than all that a search finds, or slower.
Result<Selection> fastest_on_front(const Instance& instance, uint64_t memory_bytes_max,
                                   std::vector<Selection>& front, const TimeLimit& limit = {});

}  // namespace weightpager::plan
