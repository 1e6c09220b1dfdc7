// From what the pager wrote down (telemetry/touch_record.h) to a trace.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/trace.h"
#include "pager/telemetry/touch_record.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {

/// The order comes from the models' files, which are opened again: where one is gone, its chunks
/// are in no order. A pass begins where the engine goes far back in the order. Between being served
/// and the next touch the engine computes; where threads overlap, that is 0.
Result<simulate::Trace> trace_of(const telemetry::TouchRecord& record);

/// Makes a trace of the run directory's longest record and writes it; a notice if something is
/// missing from it.
Status keep_record(const std::string& run_directory, ReportFile& file);

}  // namespace weightpager::tools
