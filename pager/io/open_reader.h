// Opens the best reader of this system: io_uring; if that is refused, threads, with a notice.
#pragma once

#include <memory>

#include "pager/base/result.h"
#include "pager/io/reader.h"

namespace weightpager::io {

/// Fails only if not even threads can be started.
Result<std::unique_ptr<Reader>> open_best_reader(const ReaderOptions& options);

}  // namespace weightpager::io
