// Usage records, and with few tensors every strategy and every plan in steps on what was read.
#include <string>
#include <string_view>

#include "pager/base/assert.h"
#include "runtime/memory/dynamic_plan.h"
#include "runtime/memory/portfolio.h"
#include "runtime/memory/records_file.h"
#include "tests/memory/overlaps.h"

namespace memory = weightpager::memory;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  // Beyond, an execution takes long and finds nothing that fewer would not.
  constexpr size_t planned_max = 8;
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto records = memory::parse_records(text, "records");
  if (!records) {
    WP_ASSERT(records.error().message.starts_with("records, byte "));
    return 0;
  }
  const auto& [tensors, known_after] = *records;
  for (const memory::TensorUsage& it : tensors) {
    WP_ASSERT(it.first_operation <= it.last_operation && it.size_bytes > 0);
  }
  if (tensors.size() > planned_max) return 0;
  for (const auto& strategy : memory::offset_strategies()) {
    WP_ASSERT(memory::find_overlaps(tensors, strategy.plan(tensors)).empty());
  }
  const auto objects = memory::choose_shared_objects(tensors);
  WP_ASSERT(memory::find_overlaps(tensors, objects.plan).empty());
  WP_ASSERT(objects.proved_lower_bound_bytes <= objects.plan.total_bytes());
  for (const memory::StepRule rule : memory::step_rules) {
    const auto offsets = memory::plan_offsets_in_steps(tensors, known_after, rule);
    WP_ASSERT(memory::find_overlaps(tensors, offsets.plan).empty());
    const auto shared = memory::share_objects_in_steps(tensors, known_after, rule);
    WP_ASSERT(memory::find_overlaps(tensors, shared.plan).empty());
    WP_ASSERT(shared.plan.total_bytes() >= objects.proved_lower_bound_bytes);
  }
  return 0;
}
