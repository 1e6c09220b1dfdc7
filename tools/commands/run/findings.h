// Why a run's models, or a part of what computes on them, were not served: told by the marks that
// its processes left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/telemetry/marks.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::tools {

struct Finding {
  std::string cause;  // for programs: docs/reference/run.md lists them
  int32_t process_id = 0;
  std::string command;
  std::string text;  // what happened
  std::string cure;  // what the user can do; never empty
};

/// What can be asked about processes and files when a run ends.
struct Surroundings {
  std::function<bool(const telemetry::Mark& mark)> is_running;
  std::function<bool(const std::string& program)> is_go_program;
};
Surroundings this_machine();

/// What the run in this directory left, once the children have spoken that were made last.
std::vector<telemetry::Mark> last_marks(const std::string& run_directory,
                                        const Surroundings& surroundings);

/// The most telling first. If `processes` has none that was served, the first is the reason for it;
/// empty if no mark tells one.
std::vector<Finding> findings(const std::vector<telemetry::Mark>& marks,
                              const std::vector<const telemetry::Telemetry*>& processes,
                              const std::string& engine, const Surroundings& surroundings);

/// Of a process that was served: what its own numbers do not show. nullptr if they show all.
const Finding* finding_about(const std::vector<Finding>& findings,
                             const telemetry::Telemetry& process);

}  // namespace weightpager::tools
