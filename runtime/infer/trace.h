// Writes the times of an inference as a trace. chrome://tracing and ui.perfetto.dev show it as
// lanes of reads, copies and kernels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/infer/window_use.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// One inference, which the trace shows as a process of its own.
struct TracedInference {
  std::string name;
  WindowUse window;
  /// By unit of the window.
  pipeline::Timeline times;
};

/// The trace's JSON (Trace Event Format). Each inference begins at 0; reads ahead of it are shown
/// before that.
std::string chrome_trace(const network::Network& network,
                         std::span<const TracedInference> inferences);

}  // namespace weightpager::infer
