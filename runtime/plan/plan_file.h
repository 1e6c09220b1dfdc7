// A joint plan as a file: `weightpager plan --output` writes it, and `infer --plan` and `model pack
// --plan` read it.
//
// A plan is for one network, at one size of its input, on one kind of processor with one number of
// threads. The file names all of these, and is refused where they differ. A file may come from
// anyone, so its contents are checked: layouts and candidates when operations are made
// (PlannedOperations), the ring and the pinned weights when they meet the weights
// (infer/window_use.h), and everything else here.
#pragma once

#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::plan {

struct PlanFile {
  JointPlan plan;
  int threads = 1;
  /// In words, everything that times depend on (machine_words).
  std::string machine;
  uint64_t budget_bytes = 0;
};

std::string plan_text(const PlanFile& file, const network::Network& network,
                      const std::string& network_name);

/// `name` is what errors call the text.
Result<PlanFile> parse_plan(std::string_view text, const network::Network& network,
                            const std::string& name);
/// Also refuses a plan that was made on another machine.
Result<PlanFile> read_plan(const std::string& path, const network::Network& network);

}  // namespace weightpager::plan
