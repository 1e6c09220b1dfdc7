// Instances of selection: what is read passes check(), and its smallest selection is one.
#include <string_view>

#include "pager/base/assert.h"
#include "runtime/plan/instance_file.h"

namespace plan = weightpager::plan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto read = plan::parse_instance(text, "instance");
  if (!read) {
    WP_ASSERT(read.error().message.starts_with("instance: "));
    return 0;
  }
  WP_ASSERT(plan::check(read->instance));
  WP_ASSERT(read->names.size() == read->instance.nodes.size());
  const plan::Selection smallest = plan::smallest(read->instance);
  WP_ASSERT(smallest.memory_bytes() == plan::least_memory_bytes(read->instance));
  return 0;
}
