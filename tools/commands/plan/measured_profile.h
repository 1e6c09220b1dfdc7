// Takes a network's profile from this machine's cache, or measures it with a line of progress.
#pragma once

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/in_place_profiler.h"
#include "runtime/plan/profile.h"

namespace weightpager::tools {

/// The times are those of runs of the network: each primitive is measured alone first, then in runs
/// of the primitives that `choose` returns.
Result<plan::Profile> measure_profile(const network::Network& network, int threads, plan::Pace pace,
                                      const plan::Choose& choose);

}  // namespace weightpager::tools
