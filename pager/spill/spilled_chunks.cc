#include "pager/spill/spilled_chunks.h"

#include <algorithm>

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

std::optional<KeptPlace> SpilledChunks::kept_place(uint32_t chunk) const {
  const Chunk& it = chunks_[chunk];
  if (it.home != Home::kept) return {};
  return KeptPlace{it.file, it.offset_bytes};
}

void SpilledChunks::reset(uint32_t chunk, uint8_t writes) {
  if (chunks_[chunk].writes > weight_writes_max) --rewritten_chunks_;
  if (writes > weight_writes_max) ++rewritten_chunks_;
  chunks_[chunk] = {};
  chunks_[chunk].writes = writes;
}

void SpilledChunks::move_to_spill_file(uint32_t chunk, uint64_t place, const ContentHash& hash) {
  move_to(Home::spill_file, chunk, place, hash, true);
}

void SpilledChunks::move_to_kept(uint32_t chunk, const KeptPlace& place, const ContentHash& hash,
                                 bool was_written) {
  move_to(Home::kept, chunk, place.offset_bytes, hash, was_written);
  chunks_[chunk].file = place.file;
}

void SpilledChunks::move_to(Home home, uint32_t chunk, uint64_t place, const ContentHash& hash,
                            bool was_written) {
  const int writes = chunks_[chunk].writes + (was_written ? 1 : 0);
  reset(chunk, static_cast<uint8_t>(std::min(writes, UINT8_MAX)));
  Chunk& it = chunks_[chunk];
  it.home = home;
  it.is_in_use = it.has_hash = it.has_stayed = true;
  it.offset_bytes = place;
  it.hash = hash;
}

void SpilledChunks::move_to_file(uint32_t chunk, uint32_t file, uint64_t offset_bytes) {
  reset(chunk, 0);
  Chunk& it = chunks_[chunk];
  it.home = Home::file;
  it.is_in_use = true;
  it.file = file;
  it.offset_bytes = offset_bytes;
}

void SpilledChunks::forget(uint32_t chunk) { reset(chunk, 0); }

}  // namespace weightpager::spill
