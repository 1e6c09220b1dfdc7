#include "pager/policy/reordered.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weightpager::policy {

std::vector<ChunkId> reordered(std::span<const ChunkId> order, std::span<const ChunkId> seen) {
  constexpr auto nowhere = UINT32_MAX;
  ChunkId last = 0;
  for (ChunkId chunk : order) last = std::max(last, chunk);
  std::vector<uint32_t> places(size_t{last} + 1, nowhere);
  for (uint32_t at = 0; at < order.size(); ++at) places[order[at]] = at;
  const auto place = [&](ChunkId chunk) { return chunk <= last ? places[chunk] : nowhere; };
  std::vector<bool> is_seen(order.size());
  for (ChunkId chunk : seen) {
    if (place(chunk) != nowhere) is_seen[place(chunk)] = true;
  }

  std::vector<ChunkId> merged;
  merged.reserve(order.size());
  const auto add_unseen_from = [&](uint32_t at) {
    for (; at < order.size() && !is_seen[at]; ++at) merged.push_back(order[at]);
  };
  // By place in `order`: where the chunks begin that follow it.
  std::vector<uint32_t> unseen_from(order.size());
  std::iota(unseen_from.begin(), unseen_from.end(), 1u);
  add_unseen_from(0);
  for (ChunkId chunk : seen) {
    if (place(chunk) == nowhere) continue;
    merged.push_back(chunk);
    // At a later visit there is nothing left to add.
    add_unseen_from(std::exchange(unseen_from[place(chunk)], static_cast<uint32_t>(order.size())));
  }
  return merged;
}

}  // namespace weightpager::policy
