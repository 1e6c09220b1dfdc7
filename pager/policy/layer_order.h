// From layers to chunks: the order in which a pass will touch the chunks of one region.
#pragma once

#include <functional>

#include "pager/base/units.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_order.h"

namespace weightpager::policy {

/// The chunks of one file of a model as they lie in a region: the region's first byte is the file's
/// byte `offset_bytes`, and chunk `first` holds that byte.
struct ChunkRange {
  ChunkId first = 0;
  uint32_t count = 0;
  uint64_t offset_bytes = 0;
  uint64_t chunk_bytes = chunk_bytes_max;
};

/// Adds the chunks of file `file` of `model` to `order` in execution order, by layers. Chunks that
/// hold only sparse tensors, or no tensor at all, are left out. A chunk that two tensors share
/// takes its place at the first one, and counts as revisited if the other comes much later. Experts
/// are listed separately: an expert's chunks are those that only experts use. An expert whose slabs
/// are shorter than a chunk is joined with its neighbours until the joined slabs are long enough,
/// because those chunks are read together anyway.
void append_chunk_order(const model::Model& model, uint32_t file, const ChunkRange& range,
                        ChunkOrder& order);

/// Takes out all chunks of which `is_gone` is true.
void erase_chunks(ChunkOrder& order, const std::function<bool(ChunkId)>& is_gone);

}  // namespace weightpager::policy
