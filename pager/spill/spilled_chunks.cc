#include "pager/spill/spilled_chunks.h"

#include "pager/base/assert.h"

namespace weightpager::spill {

void SpilledChunks::set_hash(uint32_t chunk, const ContentHash& hash) {
  WP_ASSERT(chunks_[chunk].home != Home::zeros);
  chunks_[chunk].hash = hash;
  chunks_[chunk].has_hash = true;
}

bool SpilledChunks::is_at_home(uint32_t chunk, const ContentHash& hash, bool is_all_zero) const {
  const Chunk& it = chunks_[chunk];
  if (it.home == Home::zeros) return is_all_zero;
  WP_ASSERT(it.has_hash);
  return !it.is_file_given_up && it.hash == hash;
}

void SpilledChunks::give_up_file(uint32_t chunk) {
  WP_ASSERT(chunks_[chunk].home == Home::file);
  chunks_[chunk].is_file_given_up = true;
}

std::optional<uint64_t> SpilledChunks::place(uint32_t chunk) const {
  if (chunks_[chunk].home != Home::spill_file) return {};
  return chunks_[chunk].offset_bytes;
}

void SpilledChunks::move_to_spill_file(uint32_t chunk, uint64_t place, const ContentHash& hash) {
  chunks_[chunk] = {.home = Home::spill_file,
                    .is_in_use = true,
                    .has_hash = true,
                    .has_stayed = true,
                    .file = 0,
                    .offset_bytes = place,
                    .hash = hash};
}

void SpilledChunks::move_to_file(uint32_t chunk, uint32_t file, uint64_t offset_bytes) {
  chunks_[chunk] = {.home = Home::file,
                    .is_in_use = true,
                    .has_hash = false,
                    .has_stayed = false,
                    .file = file,
                    .offset_bytes = offset_bytes,
                    .hash = {}};
}

void SpilledChunks::forget(uint32_t chunk) { chunks_[chunk] = {}; }

}  // namespace weightpager::spill
