// A network's profile from this machine's cache, or measured: with a line of progress.
#pragma once

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/in_place_profiler.h"
#include "runtime/plan/profile.h"

namespace weightpager::tools {

/// As everything is in runs of the network: alone first, then in runs of what `choose` comes to.
Result<plan::Profile> measure_profile(const network::Network& network, int threads, plan::Pace pace,
                                      const plan::Choose& choose);

}  // namespace weightpager::tools
