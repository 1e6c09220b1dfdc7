// The summary of `weightpager run` at the end: the numbers of a run, and advice.
//
// Pure functions over the pagers' counters. The text fits 80 ASCII columns and eight lines for each
// process. The last line is advice: the first rule that applies chooses it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/memory_limit.h"
#include "pager/telemetry/telemetry.h"
#include "tools/commands/run/engine_process.h"
#include "tools/commands/run/findings.h"
#include "tools/commands/run/run.h"

namespace weightpager::tools {

struct RunReport {
  RunOptions options;
  uint64_t window_bytes = 0;
  MemoryLimit memory_limit;
  EngineExit exit;
  uint64_t elapsed_ns = 0;                             // from the engine's start to its end
  uint64_t largest_process_bytes = 0;                  // most memory of a process of the engine's
  std::vector<const telemetry::Telemetry*> processes;  // those that mapped a model
  std::vector<Finding> findings;                       // what was not served, and why
};

/// Ratios of a process's counters. A ratio is 0 if its divisor is 0.
struct Ratios {
  uint64_t elapsed_ns = 0;           // from the first map to the end or, failing that, last event
  double stall_share = 0;            // of that time with an engine thread waiting for a chunk
  double read_busy_share = 0;        // of that time with a read in flight
  double read_bytes_per_second = 0;  // while reading
  double read_model_multiple = 0;    // bytes read / size of the model
  double demand_read_share = 0;      // of the bytes read, those that a thread was waiting for
};

Ratios ratios(const telemetry::Telemetry& process);

/// One sentence: what the user should do about this run. `memory_bytes` is the memory that a window
/// could have.
std::string advice(const telemetry::Telemetry& process, uint64_t memory_bytes);

/// The same for a process of a report. If something of the process was not served, the advice is
/// about that.
std::string advice_of(const RunReport& report, const telemetry::Telemetry& process);

/// The whole text that is printed at the end of a run, with its line breaks.
std::string summary_text(const RunReport& report);

}  // namespace weightpager::tools
