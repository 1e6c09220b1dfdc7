// Makes traces without an engine: of a model's files, or of a made-up shape.
//
// A model's layers tell what a pass touches: dense tensors in the order of execution, and of a
// mixture the experts that a simulated router draws, first all gates, then ups, then downs. The
// same routine serves real models (their headers say where tensors lie) and made-up shapes. Numbers
// come from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/model/model.h"
#include "pager/simulate/divide_matrix.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {

/// How a model is used.
struct Workload {
  uint32_t passes = 6;
  /// How many of the first passes are a prompt's: each of these computes `prompt_factor` times as
  /// long, and uses every expert.
  uint32_t prompt_passes = 0;
  double prompt_factor = 8;
  /// How fast the engine goes through weights that are in memory; for decoding, that is the
  /// memory's bandwidth.
  double compute_bytes_per_s = 20e9;
  /// A layer's expert of rank r is drawn with a weight of 1 / (r + 1)^exponent; 0: all alike.
  double zipf_exponent = 1.0;
  /// Each time after this many passes, one expert in eight of each layer changes its rank; 0:
  /// never.
  uint32_t drift_passes = 0;
  /// All of them work on one matrix, and then on the next one (divide_matrix.h).
  uint32_t threads = 1;
  Division division = Division::strips;
  uint64_t seed = 1;
};

/// A model without a file.
struct TraceShape {
  uint32_t layers = 32;
  /// The bytes of a layer that every pass uses.
  uint64_t dense_bytes = 128 * MiB;
  /// 0: no mixture. An expert has a gate, an up and a down slab of `slab_bytes` each.
  uint32_t experts = 0;
  uint32_t experts_used = 0;
  uint64_t slab_bytes = 0;
};

model::Model model_of(const TraceShape& shape);

/// Chunks have the size that the live pager would choose. `name` is the trace's.
Trace make_trace(const model::Model& model, const Workload& workload, std::string name);

/// Several models in one window, a pass of one after a pass of another. All have chunks of one
/// size, and the same numbers of passes and threads.
Trace interleave(const std::vector<Trace>& traces, std::string name);

/// Touches chunks at random, with no known order: `touches` in all, 100 a "pass".
Trace make_random(uint32_t chunks, uint64_t touches, uint64_t compute_ns_each, uint64_t seed);

}  // namespace weightpager::simulate
