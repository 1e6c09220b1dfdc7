// What layers take on this machine, measured where that is not known yet, with a line of progress.
#pragma once

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/profile.h"

namespace weightpager::tools {

Result<plan::Profile> measure_profile(const network::Network& network, int threads);

}  // namespace weightpager::tools
