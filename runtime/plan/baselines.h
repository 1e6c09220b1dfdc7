// The simpler planners that selection is compared with.
//
// Greedy, as Wen et al. describe it (5.3.2): start with the fastest network. While the budget is
// exceeded, give the node that needs most the fastest of its candidates that need less. Greedy does
// not look at layouts: that makes it up to eight times slower than the optimum where memory is
// tight.
//
// By time alone, as Anderson & Gregg's partitioned boolean quadratic programming: the fastest
// network, with layouts, whatever memory it takes. Their reductions are exact on series-parallel
// networks, so the result there is the fastest selection there is, one point of the front.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

/// Goes down from `start` until the budget is met. Fails where no node can do with less any more.
Result<Selection> greedy(const Instance& instance, uint64_t memory_bytes_max,
                         std::vector<uint32_t> start);

/// Fails if the network is not series-parallel and there is no CBC.
Result<Selection> fastest_ignoring_memory(const Instance& instance, const TimeLimit& limit = {});

}  // namespace weightpager::plan
