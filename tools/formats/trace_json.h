// Traces as JSON, for other programs to make and to read.
#pragma once

#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/simulate/trace.h"

namespace weightpager::tools {

std::string trace_json(const simulate::Trace& trace);

/// Fails where it is none that an engine could leave. `path` is what errors call it.
Result<simulate::Trace> parse_trace_json(std::string_view text, const std::string& path);

}  // namespace weightpager::tools
