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

/// What each layer cost in each of several runs: by run, then by layer.
using LayerRuns = std::vector<std::vector<pipeline::UnitCosts>>;

/// The costs in each run. `sequential` and `preloaded` are inferences of the same network, in
/// the pipelines of these names, for one image. If not all weights may be in memory, pass the
/// sequential one twice: kernels then begin with weights that were just read, as they do in every
/// window.
Result<LayerRuns> run_layers(Inference& sequential, Inference& preloaded,
                             std::span<const float> input, int repeats);

/// The costs by layer: the medians of all runs. There is at least one.
std::vector<pipeline::UnitCosts> median_costs(const LayerRuns& runs);

/// The medians of such runs.
Result<std::vector<pipeline::UnitCosts>> measure_layers(Inference& sequential, Inference& preloaded,
                                                        std::span<const float> input, int repeats);

/// The work of a layer, for delay models: its folded bytes, its parameter tensors and its
/// operations.
budget::Work work_of(const network::Layer& layer);

/// Samples for a delay model, by layer: medians of `repeats` inferences, on processors. Kernels are
/// those of blocks of one layer each: they begin with weights that were just read, which they check
/// or fold first, while the next layer's are read. `promised_bytes` as in InferenceOptions.
Result<std::vector<budget::Sample>> measure_samples(const network::Network& network,
                                                    const std::string& weights_path, int threads,
                                                    int repeats, uint64_t promised_bytes = 0);

/// The costs of all layers by the delay model; sizes are in whole pages.
budget::BlockedNetwork modelled_costs(const network::Network& network,
                                      const budget::DelayModel& model);

}  // namespace weightpager::infer
