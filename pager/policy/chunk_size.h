// How large a chunk shall be.
//
// A chunk of 2 MiB is one huge page: moved in a microsecond, read in one request, and easy on the
// processor's address translation. Where whole layers are read, no other size is needed. A pass
// over a mixture of experts reads only some slabs, and slabs begin and end anywhere: each takes one
// chunk more than it fills, and a chunk that two experts share stays for both. Smaller chunks read
// less beside what is needed (of slabs of 3.2 MiB a quarter of the bytes that chunks of 2 MiB read:
// docs/explanation/policies.md), but give up huge pages.
//
// An engine that has copied its weights out of a file still needs little tensors of the file here
// and there: llama.cpp two norms of some KiB a layer. Each takes a chunk. In a small window these
// chunks push out the copies, and smaller ones push out less.
#pragma once

#include <cstdint>

#include "pager/model/model.h"

namespace weightpager::policy {

/// For a pager that serves this model: 2 MiB, or for a mixture halved until an expert's smallest
/// slab spans 16 chunks, but no less than 64 KiB.
uint64_t chunk_bytes_for(const model::Model& model);

/// The most for a window of so many bytes where weights may be copied out of the model's file,
/// which stays mapped: 2 MiB, halved until the window has 64 chunks and 16 for each layer, but no
/// less than 512 KiB.
uint64_t chunk_bytes_beside_copies(const model::Model& model, uint64_t window_bytes);

}  // namespace weightpager::policy
