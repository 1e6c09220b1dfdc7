// Usage records, and with few tensors every strategy on what was read.
#include <string>
#include <string_view>

#include "pager/base/assert.h"
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
  for (const memory::TensorUsage& it : *records) {
    WP_ASSERT(it.first_operation <= it.last_operation && it.size_bytes > 0);
  }
  if (records->size() > planned_max) return 0;
  for (const auto& strategy : memory::offset_strategies()) {
    WP_ASSERT(memory::find_overlaps(*records, strategy.plan(*records)).empty());
  }
  const auto objects = memory::choose_shared_objects(*records);
  WP_ASSERT(memory::find_overlaps(*records, objects.plan).empty());
  WP_ASSERT(objects.proved_lower_bound_bytes <= objects.plan.total_bytes());
  return 0;
}
