// Opens the best reader of this system: io_uring; if that is refused, threads, with a notice.
//
// Reads that are copies (tmpfs) go to threads at once. A ring hands such reads to a worker of the
// kernel, and the kernel adds a worker only when one sleeps. Copying does not sleep, so one
// processor would do all of it: 8.5 instead of 12.4 GB/s on two processors (bench/fast_drives.cc).
#pragma once

#include <memory>

#include "pager/base/result.h"
#include "pager/io/reader.h"

namespace weightpager::io {

/// Fails only if not even threads can be started.
Result<std::unique_ptr<Reader>> open_best_reader(const ReaderOptions& options);

}  // namespace weightpager::io
