#include "pager/window/shown_file.h"

#include <algorithm>

namespace weightpager::window {

uint64_t ShownFile::bytes_of(ChunkId chunk) const {
  return std::min(chunk_bytes, size_bytes - offset_of(chunk));
}

bool ShownFile::is_shown(ChunkId chunk) const {
  bool is_shown = false;
  for_each_view(chunk, [&](const Region&, uint32_t) { is_shown = true; });
  return is_shown;
}

bool ShownFile::is_placed(ChunkId chunk) const {
  bool is_placed = false;
  for_each_view(chunk, [&](const Region& region, uint32_t index) {
    is_placed = is_placed || region.notes(index).is_placed;
  });
  return is_placed;
}

Region* ShownFile::home_of(ChunkId chunk) const {
  Region* home = nullptr;
  int best = -1;
  for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (region.edge(index) != nullptr) return;
    const int worth = region.notes(index).is_waited_for ? 2 : &region == favoured ? 1 : 0;
    if (worth > best) home = &region;
    best = std::max(best, worth);
  });
  return home;
}

}  // namespace weightpager::window
