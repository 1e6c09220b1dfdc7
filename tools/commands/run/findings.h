// Finds out why a run's models, or some of the processes that compute on them, were not served. The
// marks that the processes left tell it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/base/program_file.h"
#include "pager/base/units.h"
#include "pager/telemetry/marks.h"
#include "pager/telemetry/telemetry.h"
#include "tools/commands/run/spill_choice.h"

namespace weightpager::tools {

/// Programs without weights have as much memory.
inline constexpr uint64_t unserved_bytes_small = 256 * MiB;

struct Finding {
  std::string cause;  // for programs: docs/reference/run.md lists them
  int32_t process_id = 0;
  std::string command;
  std::string text;  // what happened
  std::string cure;  // what the user can do; never empty
};

/// Questions about processes and files that can be asked when a run ends.
struct Surroundings {
  std::function<bool(const telemetry::Mark& mark)> is_running;
  std::function<ProgramFile(const std::string& program)> look_at;
  SpillScope spilling = SpillScope::none;
  std::string spill_lack;  // RunOptions::spill_lack
};
Surroundings this_machine(SpillScope spilling, const std::string& spill_lack);

/// The marks in this run directory. Waits a moment for the marks of the youngest children.
std::vector<telemetry::Mark> last_marks(const std::string& run_directory,
                                        const Surroundings& surroundings);

/// The findings, the most telling one first. If no process was served (`processes` is empty), the
/// first finding is the reason. Empty if no mark tells a reason.
std::vector<Finding> findings(const std::vector<telemetry::Mark>& marks,
                              const std::vector<const telemetry::Telemetry*>& processes,
                              const std::string& engine, const Surroundings& surroundings);

/// For a process that was served, the finding that its own numbers do not show; nullptr if there is
/// none.
const Finding* finding_about(const std::vector<Finding>& findings,
                             const telemetry::Telemetry& process);

}  // namespace weightpager::tools
