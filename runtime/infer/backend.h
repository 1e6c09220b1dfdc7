// What computes an inference: this machine's processors, or a GPU.
//
// Knows where activations, biases and scratch memory lie, and has layers computed from weights that
// the executor brings. The window itself is not its business: for that it makes the executor a
// device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "pager/base/result.h"
#include "runtime/infer/inference.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/network/weight_source.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/pipeline/device.h"
#include "runtime/plan/planned_operations.h"

namespace weightpager::infer {

/// Used by the thread that computes.
class Backend {
 public:
  virtual ~Backend() = default;

  /// For one executor, which ends before this does.
  virtual std::unique_ptr<pipeline::Device> make_device() = 0;
  /// The device has taken its memory.
  virtual void on_window_taken() = 0;

  /// A run begins, with as many images. None is going on.
  virtual Status begin(std::span<const std::span<const float>> inputs) = 0;
  virtual ops::Channels all_channels(uint32_t layer) const = 0;
  /// Computes, or puts in line, these channels of all images. `weights`: the device's address of
  /// the first channel's; nullptr for a layer without. `meanwhile` as in UnitWork.
  virtual Status compute(uint32_t layer, ops::Channels channels, const float* weights,
                         const pipeline::Meanwhile& meanwhile) = 0;
  /// All layers are computed: brings the outputs to `activations`.
  virtual Status end() = 0;
  /// Outputs of the last run that ended well, in the process's memory.
  virtual const memory::Activations& activations(size_t image) const = 0;

  virtual uint64_t activation_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;
  virtual DeviceMemoryUse device_memory() const = 0;
};

/// Whether this process may take so many bytes for activations and scratch memory: asked before
/// they are taken.
using MayTake = std::function<Status(uint64_t)>;

/// `network` and `source` outlive what these return.
Result<std::unique_ptr<Backend>> open_cpu_backend(const network::Network& network,
                                                  const network::WeightSource& source,
                                                  const InferenceOptions& options,
                                                  const MayTake& may_take);
/// As `operations` were planned.
Result<std::unique_ptr<Backend>> open_planned_backend(const network::Network& network,
                                                      const network::WeightSource& source,
                                                      plan::PlannedOperations operations,
                                                      uint32_t batch, const MayTake& may_take);
/// Fails where there is no GPU, or where this build cannot use one.
Result<std::unique_ptr<Backend>> open_cuda_backend(const network::Network& network,
                                                   const network::WeightSource& source,
                                                   const InferenceOptions& options);

}  // namespace weightpager::infer
