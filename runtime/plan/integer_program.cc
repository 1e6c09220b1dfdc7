#include "runtime/plan/integer_program.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/plan/pareto.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"

namespace weightpager::plan {

Result<Selection> fastest_of_any_network(const Instance& instance, uint64_t memory_bytes_max,
                                         uint64_t quantum_bytes, const TimeLimit& limit) {
  if (cuts_needed(instance)) return fastest(instance, memory_bytes_max, quantum_bytes, limit);
  return fastest_by_cbc(instance, memory_bytes_max, limit);
}

Result<std::vector<Selection>> front_of_any_network(const Instance& instance,
                                                    uint64_t quantum_bytes, uint32_t budgets,
                                                    const TimeLimit& limit) {
  if (cuts_needed(instance)) return pareto_front(instance, quantum_bytes, limit);
  const auto everything = fastest_by_cbc(instance, UINT64_MAX / 2, limit);
  if (!everything) return tl::make_unexpected(everything.error());
  const uint64_t least = least_memory_bytes(instance);
  const uint64_t range = everything->memory_bytes() - least;
  std::vector<Selection> front;
  for (uint32_t i = 0; i < budgets && (i == 0 || !limit.is_over()); ++i) {
    auto found = fastest_by_cbc(instance, least + range / budgets * i, limit);
    if (!found) return forward_error(std::move(found));
    if (front.empty() || found->time_ns < front.back().time_ns) front.push_back(std::move(*found));
  }
  if (everything->time_ns < front.back().time_ns) front.push_back(*everything);
  return front;
}

Result<Selection> fastest_on_front(const Instance& instance, uint64_t memory_bytes_max,
                                   std::vector<Selection>& front, const TimeLimit& limit) {
  auto found = fastest_of_any_network(instance, memory_bytes_max, 1, limit);
  if (!found) return found;
  front.push_back(*std::move(found));
  keep_best<&Selection::memory_bytes>(front);
  const auto above = std::partition_point(front.begin(), front.end(), [&](const Selection& it) {
    return it.memory_bytes() <= memory_bytes_max;
  });
  return *std::prev(above);
}

}  // namespace weightpager::plan
