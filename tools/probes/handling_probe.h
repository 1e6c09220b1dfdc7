// Measures the work of the pager's thread beside reading (simulate/handling.h) on this machine.
//
// Problem. A system call that shows memory takes twice as long in a pager as by itself: the kernel
// has to wake threads, and other processors have to drop cached page table entries.
//
// Idea. The live pager itself runs on traces that make it do little else, and its counters are
// read.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/handling.h"
#include "tools/probes/disk_probe.h"

namespace weightpager::tools {

/// Pages the probe's file (96 MiB or more, with direct reads) for three seconds. `request_ns` is
/// not set, because it belongs to the reader (tools/probes/disk_probe.h).
Result<simulate::Handling> measure_handling(DiskProbe& probe);

}  // namespace weightpager::tools
