// Traces that no engine has left: of a model that is at hand, or of one that is only thought of.
//
// What a pass touches follows from the model's layers: what is dense in the order of execution, and
// of a mixture the experts that a router of known habits draws, first all gates, then ups, then
// downs. The same routine serves real models (their headers say where tensors lie) and made-up
// shapes. Numbers come from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/model/model.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {

/// What is done with a model.
struct Workload {
  uint32_t passes = 6;
  /// The first so many of them are a prompt's: each computes `prompt_factor` times as long, and
  /// uses every expert.
  uint32_t prompt_passes = 0;
  double prompt_factor = 8;
  /// How fast the engine goes through weights that are in memory; decoding, that is the memory's
  /// bandwidth.
  double compute_bytes_per_s = 20e9;
  /// A layer's expert of rank r is drawn with a weight of 1 / (r + 1)^exponent; 0: all alike.
  double zipf_exponent = 1.0;
  /// After so many passes, in each layer one expert in eight changes its rank; 0: never.
  uint32_t drift_passes = 0;
  uint64_t seed = 1;
};

/// A model without a file.
struct TraceShape {
  uint32_t layers = 32;
  /// What every pass uses of a layer.
  uint64_t dense_bytes = 128 * MiB;
  /// 0: no mixture. An expert has a gate, an up and a down slab of `slab_bytes` each.
  uint32_t experts = 0;
  uint32_t experts_used = 0;
  uint64_t slab_bytes = 0;
};

model::Model model_of(const TraceShape& shape);

/// In chunks as the live pager would choose them. `name` is the trace's.
Trace make_trace(const model::Model& model, const Workload& workload, std::string name);

/// Several models in one window, a pass of one after a pass of another. All have chunks of one
/// size, and as many passes.
Trace interleave(const std::vector<Trace>& traces, std::string name);

/// Any chunk at any time, and nothing known of an order; `touches` in all, 100 a "pass".
Trace make_random(uint32_t chunks, uint64_t touches, uint64_t compute_ns_each, uint64_t seed);

}  // namespace weightpager::simulate
