// Measures what each layer of a network costs on this machine, one thing at a time: reads and
// copies while nothing else goes on, kernels while all weights are in memory.
//
// Each is measured several times, and the median counts: a layer should not seem slow because the
// machine did something else for a moment.
#pragma once

#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/delay_model.h"
#include "runtime/infer/inference.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// An input of random values, always the same. The costs of layers do not depend on the input.
std::vector<float> some_input(const network::Network& network);

/// Returns the costs by layer. `sequential` and `preloaded` are inferences of the same network, in
/// the pipelines of these names, for one image. If not all weights may be in memory, pass the
/// sequential one twice: kernels then begin with weights that were just read, as they do in every
/// window.
Result<std::vector<pipeline::UnitCosts>> measure_layers(Inference& sequential, Inference& preloaded,
                                                        std::span<const float> input, int repeats);

/// The work of a layer, for delay models: its folded bytes, its parameter tensors and its
/// operations.
budget::Work work_of(const network::Layer& layer);

/// The costs of all layers by the delay model; sizes are in whole pages.
budget::BlockedNetwork modelled_costs(const network::Network& network,
                                      const budget::DelayModel& model);

}  // namespace weightpager::infer
