// Makes traces of a model and some passes, if memory has room for them.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/make_trace.h"

namespace weightpager::tools {

/// Calls simulate::make_trace, after one pass has shown how much memory all passes take.
Result<simulate::Trace> make_trace_in_memory(const model::Model& model,
                                             const simulate::Workload& workload,
                                             const std::string& name);

/// Fails if so many touches, and the lists that are made from them, do not fit into memory.
Status check_room_for_touches(uint64_t touches, const std::string& name);

}  // namespace weightpager::tools
