#include "pager/policy/chunk_size.h"

#include <algorithm>
#include <limits>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

constexpr uint64_t chunks_per_slab = 16;
// Next to its weights an expert may have scales or biases, which are no reason for small chunks.
constexpr uint64_t weights_share = 16;
constexpr uint64_t chunks_beside_copies = 64;
// Of which two are for the layer's norms.
constexpr uint64_t chunks_per_layer_beside_copies = 16;
// Smaller ones take longer to move than they save in reading.
constexpr uint64_t chunk_bytes_beside_copies_min = 512 * KiB;

uint64_t smallest_slab_bytes(const model::Expert& expert) {
  uint64_t largest_bytes = 0;
  for (const model::Slab& slab : expert.slabs) {
    largest_bytes = std::max(largest_bytes, slab.size_bytes);
  }
  uint64_t smallest_bytes = largest_bytes;
  for (const model::Slab& slab : expert.slabs) {
    if (slab.size_bytes < largest_bytes / weights_share) continue;
    smallest_bytes = std::min(smallest_bytes, slab.size_bytes);
  }
  return smallest_bytes;
}

/// 2 MiB, halved until the length has so many chunks, but no less than the least.
uint64_t halved_until(uint64_t length_bytes, uint64_t chunks, uint64_t bytes_min) {
  uint64_t chunk_bytes = chunk_bytes_max;
  while (chunk_bytes > bytes_min && length_bytes / chunk_bytes < chunks) chunk_bytes /= 2;
  return chunk_bytes;
}

}  // namespace

uint64_t chunk_bytes_for(const model::Model& model) {
  uint64_t slab_bytes = std::numeric_limits<uint64_t>::max();
  for (const model::Expert& expert : model.experts) {
    slab_bytes = std::min(slab_bytes, smallest_slab_bytes(expert));
  }
  return halved_until(slab_bytes, chunks_per_slab, chunk_bytes_min);
}

uint64_t chunk_bytes_beside_copies(const model::Model& model, uint64_t window_bytes) {
  const uint64_t chunks = std::max<uint64_t>(chunks_beside_copies,
                                             chunks_per_layer_beside_copies * model.layers.size());
  return halved_until(window_bytes, chunks, chunk_bytes_beside_copies_min);
}

}  // namespace weightpager::policy
