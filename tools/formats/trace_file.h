// Traces in files: binary (pager/simulate/trace_format.h), or JSON for other programs to make.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/trace.h"

namespace weightpager::tools {

/// Whether the file begins as a binary trace, or is named as a JSON one; false also if it cannot be
/// read.
bool is_trace_file(const std::string& path);

/// Reads either form; the first byte tells which.
Result<simulate::Trace> read_trace(const std::string& path);

/// By the name's end: .json, .csv (the touches only), otherwise binary. The file appears when it is
/// complete. `option` is what the user gave the path with.
Status write_trace(const simulate::Trace& trace, const std::string& path,
                   const std::string& option);

}  // namespace weightpager::tools
