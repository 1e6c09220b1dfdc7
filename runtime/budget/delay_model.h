// The costs of reading, computing and letting go of a block, as SwapNet models them, and the
// regression that finds the model of a machine.
//
//   in  = alpha · bytes + beta · tensors + constant
//   ex  = gamma · operations (+ constant, per layer)
//   out = eta · tensors + constant
//
// Idea. Least squares over measured layers. No cost can be negative. But where two columns grow
// together (bytes and tensors of a network whose layers are all alike), the plain solution may
// subtract one from the other. There are at most three columns, so each subset of them is solved,
// and the best solution without negative coefficients is taken. R² says how much of the
// measurements the model explains, and the residuals say which layers it does not.
//
// Cost: microseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"

namespace weightpager::budget {

/// The work of a layer or of a block.
struct Work {
  uint64_t size_bytes = 0;
  uint64_t tensors = 0;
  uint64_t operations = 0;
};

struct DelayModel {
  double read_ns_per_byte = 0;    // alpha
  double read_ns_per_tensor = 0;  // beta
  double read_ns_per_block = 0;
  double kernel_ns_per_operation = 0;  // gamma
  double kernel_ns_per_layer = 0;
  double release_ns_per_tensor = 0;  // eta
  double release_ns_per_block = 0;

  /// Without the costs that there are once per block.
  LayerCosts layer_costs(const Work& layer) const;
  PerBlock per_block() const;
};

BlockedNetwork blocked_network(const DelayModel& model, std::span<const Work> layers);

/// One layer, measured alone.
struct Sample {
  Work work;
  uint64_t read_ns = 0;
  uint64_t kernel_ns = 0;
  uint64_t release_ns = 0;
};

/// One of the three equations.
struct CostFit {
  size_t samples = 0;
  /// 1: the model explains all of the difference between samples; 0: none of it.
  double r_squared = 0;
  /// Measured minus modelled, by sample. For reads and releases, only samples with bytes.
  std::vector<double> residuals_ns;
};

struct FittedModel {
  DelayModel model;
  CostFit read;
  CostFit kernel;
  CostFit release;
};

/// Fails with fewer than four samples that have bytes, or if all of these have one size.
Result<FittedModel> fit_delays(std::span<const Sample> samples);

}  // namespace weightpager::budget
