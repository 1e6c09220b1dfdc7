// `--device`: what computes.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "runtime/infer/window_use.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {

/// For a command's table.
Option device_option();

/// "cpu" or "cuda"; without the option the processor.
Result<infer::DeviceKind> parse_device(const Arguments& arguments);

const char* device_word(infer::DeviceKind device);

}  // namespace weightpager::tools
