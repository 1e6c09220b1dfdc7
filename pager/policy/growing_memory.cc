#include "pager/policy/growing_memory.h"

#include <utility>

namespace weightpager::policy {

std::vector<ChunkId> GrowingMemory::end(const std::vector<ChunkId>& order) {
  std::vector<ChunkId> copied;
  for (const ChunkId chunk : order) {
    if (is_read_[chunk]) copied.push_back(chunk);
  }
  std::fill(is_read_.begin(), is_read_.end(), false);
  // A layout may take a little less than the file does.
  const bool are_copied = copied.size() <= std::exchange(grown_, 0) / 3 * 4;
  if (!are_copied) copied.clear();
  std::sort(copied.begin(), copied.end());
  return copied;
}

}  // namespace weightpager::policy
