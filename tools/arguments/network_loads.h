// `--budget`, `--urgency`, `--period` and `--goal`: the memory that several networks get, and the
// work that each has to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/serve/demand.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The options, for a command's table.
Option urgency_option();
Option period_option();
Option goal_option();

struct NetworkLoads {
  uint64_t budget_bytes = 0;
  /// By network.
  std::vector<double> urgencies;
  /// 0: one inference right after the other.
  std::vector<uint64_t> periods_ns;
  serve::SharingGoal goal = serve::SharingGoal::mean_slowdown;
  std::string goal_word;
};

/// There is one network for each operand. `usage_example` is the hint if no budget is given.
Result<NetworkLoads> parse_network_loads(const Arguments& arguments,
                                         const std::string& usage_example);

}  // namespace weightpager::tools
