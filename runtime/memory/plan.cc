#include "runtime/memory/plan.h"

#include <numeric>

namespace weightpager::memory {

uint64_t SharedObjectsPlan::total_bytes() const {
  return std::accumulate(object_bytes.begin(), object_bytes.end(), uint64_t{0});
}

}  // namespace weightpager::memory
