// The best reader that this system gives: io_uring, or threads where that is refused, with a
// notice.
#pragma once

#include <memory>

#include "pager/base/result.h"
#include "pager/io/reader.h"

namespace weightpager::io {

/// Fails only where not even threads can be had.
Result<std::unique_ptr<Reader>> open_best_reader(const ReaderOptions& options);

}  // namespace weightpager::io
