// Which size the window's pages shall have.
#pragma once

#include <sys/mman.h>

#include <cstdint>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::window {

/// Advises the kernel about a range that chunks come into and leave: huge pages if a chunk is one,
/// else small pages, because a part of a huge page cannot go before the page is split. Where the
/// kernel has no huge pages there is nothing to advise.
inline void advise_page_size(void* address, uint64_t length_bytes, uint64_t chunk_bytes) {
  kernel::madvise(address, length_bytes,
                  chunk_bytes < huge_page_bytes ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

}  // namespace weightpager::window
