// What the pager's thread has to do beside reading (simulate/handling.h), measured on this machine.
//
// Problem. A call of the kernel that shows memory takes twice as long in a pager as by itself:
// there are threads to be woken, and other processors that have to forget what they remember of
// page tables.
//
// Idea. The live pager itself is run, on traces that make it do little else, and asked for what it
// counted.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/handling.h"
#include "tools/probes/disk_probe.h"

namespace weightpager::tools {

/// Pages the probe's file (96 MiB or more, with direct reads) for three seconds. `request_ns` is
/// left alone: that is the reader's (tools/probes/disk_probe.h).
Result<simulate::Handling> measure_handling(DiskProbe& probe);

}  // namespace weightpager::tools
