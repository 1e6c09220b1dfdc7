// What the pager's thread has to do beside reading (simulate/handling.h), measured on this machine.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/handling.h"

namespace weightpager::tools {

/// Shows and takes out chunks by the best mapper of this machine; touches chunks of the file at
/// `path` (32 MiB or more, with direct reads) that the live pager has in its window, for what a
/// fault takes. Two seconds. `request_ns` is left alone: that is the reader's (tools/disk_probe.h).
Result<simulate::Handling> measure_handling(const std::string& path);

}  // namespace weightpager::tools
