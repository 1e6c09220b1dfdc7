#include "pager/policy/window_shares.h"

#include <algorithm>

#include "pager/base/units.h"
#include "pager/policy/cursor.h"

namespace weightpager::policy {
namespace {

constexpr uint64_t ring_bytes_min = 8 * MiB;
constexpr uint64_t ring_bytes_max = 128 * MiB;
// Outside the cyclic order an engine looks at rows here and there, and each row takes a chunk,
// whatever the chunk's size. A pin saves a read in every pass; such a place does so only if each
// pass comes back to it, and a token needs one row.
constexpr uint32_t sparse_chunks_max = 4;

uint32_t ring_length(const WindowNeeds& needs, uint32_t for_order) {
  const auto chunks_in = [&](uint64_t bytes) {
    return static_cast<uint32_t>(bytes / needs.chunk_bytes);
  };
  const uint32_t missing = needs.cyclic - for_order;
  const uint32_t shortest = chunks_in(ring_bytes_min);
  const uint32_t widest = widest_ring(needs.window, needs.chunk_bytes);
  const uint32_t usual = std::max(needs.window / 4, shortest);
  const uint32_t for_threads = std::min(2 * needs.at_once, for_order / 2);
  const uint32_t to_linger = std::min(2 * needs.linger, widest);
  const uint32_t wanted = std::max({usual, for_threads, to_linger});
  return std::min({chunks_in(ring_bytes_max), wanted, std::max(missing, shortest), for_order});
}

}  // namespace

WindowShares divide_window(const WindowNeeds& needs) {
  const uint32_t window = needs.window;
  WindowShares shares;
  shares.sparse = std::min(needs.sparse, std::clamp(window / 32, 2u, sparse_chunks_max));
  // Room for the experts of one layer to work in.
  shares.above = std::min({needs.above, std::max(window / 8, 2 * needs.above_largest), window / 2});
  const uint32_t taken = shares.sparse + shares.above;
  const uint32_t for_order = window > taken ? window - taken : 0;
  if (for_order >= needs.cyclic) {
    // Everything that is cyclic fits; what is left over serves experts, then the rest.
    shares.pinned = needs.cyclic;
    shares.above = std::min(needs.above, window - needs.cyclic - shares.sparse);
    shares.sparse = window - needs.cyclic - shares.above;
    return shares;
  }
  shares.is_streaming = true;
  shares.ring = ring_length(needs, for_order);
  shares.pinned = for_order - shares.ring;
  return shares;
}

}  // namespace weightpager::policy
