// Misses of the processor's last cache, as its counters have them.
//
// Virtual machines often have no such counters; then opening fails, and the error says why.
#pragma once

#include <cstdint>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::tools {

/// Counts for the thread that opened it, outside the kernel. Any thread may read.
class CacheMisses {
 public:
  static Result<CacheMisses> open();

  /// Since it was opened.
  uint64_t count() const;

 private:
  explicit CacheMisses(OwnedFd counter) : counter_(std::move(counter)) {}

  OwnedFd counter_;
};

}  // namespace weightpager::tools
