// `--device`: the device that computes.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/infer/window_use.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// The option, for a command's table.
Option device_option();

/// Parses "cpu" or "cuda"; without the option it is the processor.
Result<infer::DeviceKind> parse_device(const Arguments& arguments);

const char* device_word(infer::DeviceKind device);

}  // namespace weightpager::tools
