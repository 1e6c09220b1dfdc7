// Demand Layering's measurements of a network of this machine's own (network_here.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "pager/base/result.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/infer/pipeline_comparison.h"
#include "runtime/network/network.h"
#include "tools/commands/reproduce/network_here.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::demand_layering {

/// What `make` measures of the network that the settings name: without a name YOLOv4, or quickly
/// SqueezeNet. Where no folder is on a disk, the figure lacks everything, and says so.
Result<Reproduction> measured_here(
    const ReproduceSettings& settings,
    const std::function<Result<Reproduction>(const NetworkHere& here)>& make);

/// What each layer cost in each of `repeats` runs.
Result<infer::LayerRuns> layers_here(const ReproduceSettings& settings, const NetworkHere& here,
                                     int repeats);

/// The network in one pipeline; each inference begins with an empty window, as in the paper.
Result<std::unique_ptr<infer::Inference>> open_here(const ReproduceSettings& settings,
                                                    const NetworkHere& here,
                                                    pipeline::Pipeline which);

/// All pipelines of the paper in turns, `inferences` of each, and a line of progress.
Result<infer::Comparison> compare_here(const ReproduceSettings& settings,
                                       const network::Network& network, const NetworkHere& here,
                                       infer::ComparisonOptions options);

}  // namespace weightpager::tools::demand_layering
