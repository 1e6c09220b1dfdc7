#include "runtime/plan/integer_program.h"

#include <utility>

#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {

Result<Selection> fastest_of_any_network(const Instance& instance, uint64_t memory_bytes_max,
                                         uint64_t quantum_bytes) {
  if (check_series_parallel(instance)) return fastest(instance, memory_bytes_max, quantum_bytes);
  return fastest_by_cbc(instance, memory_bytes_max);
}

}  // namespace weightpager::plan
