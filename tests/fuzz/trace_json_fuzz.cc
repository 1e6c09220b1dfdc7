// Traces as JSON: what comes through is one that an engine could leave, and comes back as it was.
#include <string_view>

#include "pager/base/assert.h"
#include "pager/simulate/trace_format.h"
#include "tools/formats/trace_json.h"

namespace simulate = weightpager::simulate;
namespace tools = weightpager::tools;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto trace = tools::parse_trace_json(text, "trace");
  if (!trace) {
    WP_ASSERT(trace.error().message.starts_with("trace"));
    return 0;
  }
  WP_ASSERT(simulate::check(*trace, "trace").has_value());
  const auto again = tools::parse_trace_json(tools::trace_json(*trace), "trace");
  WP_ASSERT(again.has_value() && again->touches.size() == trace->touches.size());
  return 0;
}
