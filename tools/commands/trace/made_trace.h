// Traces that are made here, of a model and some passes: only where there is room for them.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/simulate/make_trace.h"

namespace weightpager::tools {

/// simulate::make_trace, after one pass has shown how much all of them take.
Result<simulate::Trace> make_trace_in_memory(const model::Model& model,
                                             const simulate::Workload& workload,
                                             const std::string& name);

/// Fails where so many touches do not fit into memory, with what is made of them.
Status check_room_for_touches(uint64_t touches, const std::string& name);

}  // namespace weightpager::tools
