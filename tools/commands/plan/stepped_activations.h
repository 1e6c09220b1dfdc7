// Plans in steps (runtime/memory/dynamic_plan.h) of records whose sizes are known late: as text and
// as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/memory/dynamic_plan.h"
#include "runtime/memory/records_file.h"

namespace weightpager::tools {

/// Plans under each rule, in the order of memory::step_rules.
struct SteppedActivations {
  std::vector<memory::SteppedPlan<memory::OffsetPlan>> offsets;
  std::vector<memory::SteppedPlan<memory::SharedObjectsPlan>> objects;
};

SteppedActivations plan_in_steps(const memory::Records& records, const TimeLimit& limit);

/// What the same records take if all their sizes are known.
struct StaticTotals {
  uint64_t plan_bytes = 0;
  uint64_t bound_bytes = 0;
};

/// Tables of both kinds: a row for each step at which a plan grows.
std::string steps_text(const SteppedActivations& planned, const StaticTotals& offsets,
                       const StaticTotals& objects);

/// `{"offsets": {RULE: …}, "shared_objects": {RULE: …}}`.
nlohmann::ordered_json steps_json(const SteppedActivations& planned);

}  // namespace weightpager::tools
