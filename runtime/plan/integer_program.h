// Selection by integer programming, with CBC: for networks that are far from series-parallel, and
// to check what the exact planner finds.
//
// There is a binary variable per node and candidate. Each edge is a transport: its variables say
// how much of the tensor goes from which layout to which. The candidates with a layout out send
// what leaves that layout, and the candidates with a layout in take what arrives in it. The
// transport's variables need not be integers, and the linear relaxation is tight and small. The
// paper has a product of two binaries per pair of candidates instead (equation 11): CBC takes two
// hundred times as long with it.
//
// Where the build has no CBC, these functions fail and say what to install (no_cbc.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

bool has_integer_programming();

/// The fastest selection within a budget. If the limit is over before: the fastest one so far, or
/// the smallest.
Result<Selection> fastest_by_cbc(const Instance& instance, uint64_t memory_bytes_max,
                                 const TimeLimit& limit = {});

/// The selection with the least memory that takes no longer than `time_ns_max`.
Result<Selection> least_memory_by_cbc(const Instance& instance, double time_ns_max);

/// By series-parallel reduction, and where that is impossible, by CBC.
Result<Selection> fastest_of_any_network(const Instance& instance, uint64_t memory_bytes_max,
                                         uint64_t quantum_bytes = 1, const TimeLimit& limit = {});

/// The front. Of networks that only CBC can plan: the points at `budgets` budgets, evenly spaced,
/// as far as there is time.
Result<std::vector<Selection>> front_of_any_network(const Instance& instance,
                                                    uint64_t quantum_bytes, uint32_t budgets,
                                                    const TimeLimit& limit = {});

/// The fastest selection within a budget. `front` is a front of the same network, and the selection
/// is added to it: points of a front that is not exact may be faster than anything that a search
/// finds, or slower.
Result<Selection> fastest_on_front(const Instance& instance, uint64_t memory_bytes_max,
                                   std::vector<Selection>& front, const TimeLimit& limit = {});

}  // namespace weightpager::plan
