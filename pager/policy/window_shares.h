// How the window is divided: what stays, what is streamed, what is left for everything else.
//
// Of a window of T chunks, P = T − R − Q stay for good ("pinned"), R are the ring through which the
// others are streamed, and Q serve what is not cyclic (embedding rows). A few of the P places go to
// chunks that a pass soon comes back to (held_visits.h). The ring is a quarter of the window,
// within bounds, or longer where threads are far apart or many wait at once; where fewer chunks are
// missing from the window, the ring has only as many chunks as are missing. A layer above (a
// mixture's experts) gets what the cycle leaves, and at least an eighth of the window, because
// chunks that every pass needs are worth more than chunks that some passes need.
//
// A pure function. Cost: O(1).
#pragma once

#include <cstdint>

namespace weightpager::policy {

/// The window that is divided, and what needs a share of it. All but `chunk_bytes` in chunks.
struct WindowNeeds {
  uint64_t chunk_bytes = 0;
  uint32_t window = 0;
  uint32_t cyclic = 0;
  /// Chunks that are neither cyclic nor the layer above's.
  uint32_t sparse = 0;
  /// Chunks of a layer above, and of the largest thing that this layer reads as a whole.
  uint32_t above = 0;
  uint32_t above_largest = 0;
  /// So many chunks are waited for at once, by as many threads: the ring shall hold them, and the
  /// next chunk of each thread.
  uint32_t at_once = 0;
  /// So many chunks shall linger behind the cursor, for which the ring has to be twice as long, but
  /// not longer than widest_ring() says.
  uint32_t linger = 0;
};

/// In chunks.
struct WindowShares {
  uint32_t ring = 0;
  uint32_t pinned = 0;
  uint32_t held = 0;  // from one visit until the next one
  uint32_t sparse = 0;
  uint32_t above = 0;
  /// Some chunk of the order does not fit.
  bool is_streaming = false;
};

WindowShares divide_window(const WindowNeeds& needs);

}  // namespace weightpager::policy
