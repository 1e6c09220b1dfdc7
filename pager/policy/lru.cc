#include "pager/policy/lru.h"

#include <algorithm>

namespace weightpager::policy {

ChunkId Lru::next_hold() {
  // While there is room, nobody needs to know what is old.
  if (table_.resident() < table_.resident_max()) return window::no_chunk;
  if (mapped_.size() <= std::max(table_.resident_max() / 2, 1u)) return window::no_chunk;
  const ChunkId oldest = mapped_.back();
  mapped_.erase(oldest);
  return oldest;
}

}  // namespace weightpager::policy
