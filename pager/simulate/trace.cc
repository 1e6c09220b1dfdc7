#include "pager/simulate/trace.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace weightpager::simulate {

uint64_t Trace::compute_ns() const {
  return std::accumulate(
      touches.begin(), touches.end(), uint64_t{0},
      [](uint64_t sum_ns, const Touch& touch) { return sum_ns + touch.compute_ns; });
}

std::vector<ChunkId> Trace::touched_chunks() const {
  std::vector<ChunkId> touched;
  touched.reserve(touches.size());
  std::transform(touches.begin(), touches.end(), std::back_inserter(touched),
                 [](const Touch& touch) { return touch.chunk; });
  return touched;
}

std::vector<Touch> touches_of(std::span<const telemetry::RecordedTouch> recorded) {
  std::vector<Touch> touches;
  touches.reserve(recorded.size());
  for (size_t i = 0; i < recorded.size(); ++i) {
    const telemetry::RecordedTouch& touch = recorded[i];
    const uint64_t next_ns = i + 1 < recorded.size() ? recorded[i + 1].touched_ns : 0;
    const bool computes = touch.served_ns != 0 && next_ns > touch.served_ns;
    touches.push_back({touch.chunk, touch.offset_bytes, computes ? next_ns - touch.served_ns : 0});
  }
  return touches;
}

}  // namespace weightpager::simulate
