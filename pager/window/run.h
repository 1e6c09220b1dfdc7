// Neighbours in a file that are handled as one: read by one request, shown or taken out by one
// call.
//
// Problem. Chunks may be as small as 64 KiB, and a request or a call of the kernel costs about the
// same for each size.
//
// Idea. Chunks that are asked for one after the other go together, up to a limit, if they lie side
// by side in the file and their slots do, too. The live pager and the simulator gather by the same
// rules, which are here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pager/base/units.h"
#include "pager/window/chunk_table.h"

namespace weightpager::window {

struct Run {
  ChunkId first = 0;
  uint32_t count = 0;
};

/// Small chunks are read together up to this size: the cost of a request (10 to 20 µs) is then
/// little beside the time that the disk takes, and a thread that waits for the first chunk does not
/// wait much longer.
inline constexpr uint64_t read_bytes_max = 512 * KiB;
/// Small chunks are shown and taken out together up to this size, because at each such call the
/// kernel interrupts all processors that the engine runs on, to flush what they remember of page
/// tables.
inline constexpr uint64_t move_bytes_max = 2 * MiB;

inline uint32_t chunks_together(uint64_t bytes_max, uint64_t chunk_bytes) {
  return static_cast<uint32_t>(std::max<uint64_t>(bytes_max / chunk_bytes, 1));
}

/// Whether the chunk comes behind the run's last one and the run may become longer. The caller has
/// to check that the chunk's memory follows, too.
inline bool comes_next(const Run& run, ChunkId chunk, uint32_t count_max) {
  return run.count > 0 && run.count < count_max && chunk == run.first + run.count;
}

/// How many chunks of a run, from the first one on, can go and have slots side by side; brings
/// their slots together for that (chunk_table.h). At least one.
template <typename CanGo>
uint32_t count_together(ChunkTable& table, const Run& run, CanGo can_go) {
  uint32_t count = 0;
  while (count < run.count && can_go(run.first + count)) ++count;
  return count == 0 ? 1 : table.bring_together(run.first, count);
}

}  // namespace weightpager::window
