#include "tools/commands/trace/made_trace.h"

#include <fmt/format.h>

#include "pager/base/memory_room.h"

namespace weightpager::tools {
namespace {

/// The list grows by doubling, and a second list of its size is made when it is written or
/// converted.
constexpr uint64_t bytes_per_touch = 4 * sizeof(simulate::Touch);

}  // namespace

Status check_room_for_touches(uint64_t touches, const std::string& name) {
  return check_room({.what = fmt::format("a trace of {}, {} touches", name, touches),
                     .bytes = touches * bytes_per_touch},
                    "give fewer --passes");
}

Result<simulate::Trace> make_trace_in_memory(const model::Model& model,
                                             const simulate::Workload& workload,
                                             const std::string& name) {
  simulate::Workload one = workload;
  one.passes = 1;
  const uint64_t touches = simulate::make_trace(model, one, name).touches.size();
  if (Status fits = check_room_for_touches(touches * workload.passes, name); !fits) {
    return forward_error(std::move(fits));
  }
  return simulate::make_trace(model, workload, name);
}

}  // namespace weightpager::tools
