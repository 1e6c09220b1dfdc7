// `--urgency` and `--period`: what is asked of each of several networks.
#pragma once

#include <cstdint>
#include <vector>

#include "pager/base/result.h"
#include "tools/cli.h"

namespace weightpager::tools {

/// For a command's table.
Option urgency_option();
Option period_option();

/// By network.
struct NetworkLoads {
  std::vector<double> urgencies;
  /// 0: one inference right after the other.
  std::vector<uint64_t> periods_ns;
};

/// One network for each operand.
Result<NetworkLoads> parse_network_loads(const Arguments& arguments);

}  // namespace weightpager::tools
