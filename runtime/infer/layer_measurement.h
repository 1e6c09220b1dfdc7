// What each layer of a network costs on this machine, one thing at a time: reads and copies while
// nothing else goes on, kernels while everything is in memory.
//
// Each is measured several times, and the median counts: a machine that does something else for a
// moment should not make a layer slow.
#pragma once

#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/delay_model.h"
#include "runtime/infer/inference.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// Any picture will do: what layers cost does not depend on it. Always the same.
std::vector<float> some_input(const network::Network& network);

/// By layer. `sequential` and `preloaded` are of that pipeline, of the same network, and take one
/// image. Where not all weights may be in memory both are the sequential one: kernels then begin
/// with weights that were just read, as they do in every window.
Result<std::vector<pipeline::UnitCosts>> measure_layers(Inference& sequential, Inference& preloaded,
                                                        std::span<const float> input, int repeats);

/// What there is to do in a layer, for delay models: its folded bytes, its parameter tensors.
budget::Work work_of(const network::Layer& layer);

}  // namespace weightpager::infer
