// The backend computes an inference, on this machine's processors or on a GPU.
//
// It knows where activations, biases and scratch memory lie, and computes layers from weights that
// the executor brings. It does not know the window: for that it makes a device for the executor.
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

  /// Makes the device for one executor, which is destroyed before the backend.
  virtual std::unique_ptr<pipeline::Device> make_device() = 0;
  /// To be called when the device has taken its memory.
  virtual void on_window_taken() = 0;

  /// Begins a run with these images. No other run is going on.
  virtual Status begin(std::span<const std::span<const float>> inputs) = 0;
  virtual ops::Channels all_channels(uint32_t layer) const = 0;
  /// Computes these channels of all images, or puts the work in line. `weights`: the device's
  /// address of the first channel's weights; nullptr for a layer without weights. `meanwhile` as in
  /// UnitWork.
  virtual Status compute(uint32_t layer, ops::Channels channels, const float* weights,
                         const pipeline::Meanwhile& meanwhile) = 0;
  /// To be called when all layers are computed or in line: brings the outputs to `activations`.
  virtual Status end() = 0;
  /// Outputs of the last run that ended without an error, in the process's memory.
  virtual const memory::Activations& activations(size_t image) const = 0;

  virtual uint64_t activation_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;
  virtual DeviceMemoryUse device_memory() const = 0;
};

/// Whether this process may take so many bytes for activations and scratch memory. Called before
/// they are taken.
using MayTake = std::function<Status(uint64_t)>;

/// `network` and `source` outlive the backend.
Result<std::unique_ptr<Backend>> open_cpu_backend(const network::Network& network,
                                                  const network::WeightSource& source,
                                                  const InferenceOptions& options,
                                                  const MayTake& may_take);
/// A backend for the processors that computes with `operations`, as a plan says.
Result<std::unique_ptr<Backend>> open_planned_backend(const network::Network& network,
                                                      const network::WeightSource& source,
                                                      plan::PlannedOperations operations,
                                                      uint32_t batch, const MayTake& may_take);
/// Fails if there is no GPU, or if this build cannot use one.
Result<std::unique_ptr<Backend>> open_cuda_backend(const network::Network& network,
                                                   const network::WeightSource& source,
                                                   const InferenceOptions& options);

}  // namespace weightpager::infer
