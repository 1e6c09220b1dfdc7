// Makes a trace from the touches that the pager recorded (telemetry/touch_record.h).
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/trace.h"
#include "pager/telemetry/touch_record.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {

/// The order of chunks comes from the models' files, which are opened again. If a file is gone, its
/// chunks have no place in the order. A pass begins where the engine goes far back in the order.
/// The time between a served touch and the next touch counts as computing; it is 0 where threads
/// overlap.
Result<simulate::Trace> trace_of(const telemetry::TouchRecord& record);

/// Makes a trace of the longest record in the run directory and writes it. Prints a notice if the
/// trace is incomplete.
Status keep_record(const std::string& run_directory, ReportFile& file);

}  // namespace weightpager::tools
