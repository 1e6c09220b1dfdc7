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

}  // namespace weightpager::simulate
