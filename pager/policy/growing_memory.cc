#include "pager/policy/growing_memory.h"

#include <utility>

namespace weightpager::policy {

void GrowingMemory::reset(uint32_t chunks, const std::vector<bool>& is_of_file) {
  is_new_.resize(chunks);
  was_ever_new_.resize(chunks);
  for (ChunkId chunk = 0; chunk < is_of_file.size(); ++chunk) {
    if (is_of_file[chunk]) is_new_[chunk] = was_ever_new_[chunk] = false;
  }
  is_read_.resize(chunks);
  of_file_.reset(chunks);
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    if (is_read_[chunk]) of_file_.push(chunk);
  }
}

void GrowingMemory::note_new(ChunkId chunk) {
  is_new_[chunk] = true;
  is_read_[chunk] = false;
  if (was_ever_new_[chunk]) return;
  was_ever_new_[chunk] = true;
  ++grown_;
  touches_since_ = 0;
}

void GrowingMemory::note_touch(ChunkId chunk) {
  ++touches_since_;
  is_read_[chunk] = !was_ever_new_[chunk];
  if (is_read_[chunk]) of_file_.push(chunk);
}

std::vector<ChunkId> GrowingMemory::end(const ChunkOrder& order) {
  for (const ChunkId chunk : order.kept) is_read_[chunk] = false;
  std::vector<ChunkId> copied;
  for (const ChunkId chunk : order.cyclic) {
    if (is_read_[chunk]) copied.push_back(chunk);
  }
  // A layout may take a little less than the file does.
  const bool are_copied = grown_ >= grown_min && copied.size() <= grown_ / 3 * 4;
  std::fill(is_read_.begin(), is_read_.end(), false);
  grown_ = 0;
  return are_copied ? copied : std::vector<ChunkId>();
}

}  // namespace weightpager::policy
