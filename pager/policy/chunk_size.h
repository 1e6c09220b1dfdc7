// How large a chunk shall be.
//
// A chunk of 2 MiB is one huge page: moved in a microsecond, read in one request, and easy on the
// processor's address translation. Where whole layers are read, no other size is needed. A pass
// over a mixture of experts reads only some slabs, and slabs begin and end anywhere: each takes one
// chunk more than it fills, and a chunk that two experts share stays for both. Smaller chunks read
// less beside what is needed (of slabs of 3.2 MiB a quarter of the bytes that chunks of 2 MiB read:
// docs/explanation/policies.md), but give up huge pages.
#pragma once

#include <cstdint>

#include "pager/model/model.h"

namespace weightpager::policy {

/// For a pager that serves this model: 2 MiB, or for a mixture halved until an expert's smallest
/// slab spans 16 chunks, but no less than 64 KiB.
uint64_t chunk_bytes_for(const model::Model& model);

}  // namespace weightpager::policy
