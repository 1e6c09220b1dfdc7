// Inference on this machine's processors: everything lies in the process's memory, and a layer is
// computed when `compute` returns. There are two backends: a plain one, and one that follows a plan
// (plan/joint_plan.h). There each convolution runs the code that was chosen for it, and workspace
// and copies in other layouts lie among the activations.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/infer/backend.h"
#include "runtime/ops/cpu/operations.h"

namespace weightpager::infer {
namespace {

using memory::Activations;
using network::Network;
using network::WeightSource;
using ops::Channels;
using ops::CpuOperations;
using ops::TileWeights;
using pipeline::Meanwhile;

/// Everything except for the operations themselves.
class HostBackend : public Backend {
 public:
  HostBackend(const WeightSource& source, std::vector<Activations> activations)
      : source_(source), activations_(std::move(activations)) {}

  std::unique_ptr<pipeline::Device> make_device() override {
    return pipeline::make_host_device(activations_.front().pages());
  }
  void on_window_taken() override {}

  Status begin(std::span<const std::span<const float>> inputs) override {
    images_ = inputs.size();
    for (size_t image = 0; image < images_; ++image) {
      std::copy(inputs[image].begin(), inputs[image].end(), activations_[image].input());
    }
    return {};
  }

  // Computes all images of the batch while the weights are here.
  Status compute(uint32_t layer, Channels channels, const float* weights,
                 const Meanwhile& meanwhile) override {
    TileWeights tile;
    if (weights != nullptr) {
      tile = {.biases = source_.biases(layer) + channels.begin, .weights = weights};
    }
    const std::span<const Activations> images = std::span(activations_).first(images_);
    for (const Activations& image : images) {
      const bool is_first = &image == images.data();
      Status ran = run(layer, channels, tile, image, is_first ? meanwhile : Meanwhile());
      if (!ran) return ran;
    }
    return {};
  }
  Status end() override { return {}; }
  const Activations& activations(size_t image) const override { return activations_[image]; }

  uint64_t activation_bytes() const override {
    return activations_.size() * activations_.front().layout().plan.total_bytes;
  }
  DeviceMemoryUse device_memory() const override { return {}; }

 private:
  virtual Status run(uint32_t layer, Channels channels, const TileWeights& tile,
                     const Activations& image, const Meanwhile& meanwhile) = 0;

  const WeightSource& source_;
  std::vector<Activations> activations_;  // by image
  size_t images_ = 0;                     // of this run
};

class PlainBackend final : public HostBackend {
 public:
  PlainBackend(const WeightSource& source, CpuOperations operations,
               std::vector<Activations> activations)
      : HostBackend(source, std::move(activations)), operations_(std::move(operations)) {}

  Channels all_channels(uint32_t layer) const override { return operations_.all_channels(layer); }
  uint64_t scratch_bytes() const override { return operations_.scratch_bytes(); }

 private:
  Status run(uint32_t layer, Channels channels, const TileWeights& tile, const Activations& image,
             const Meanwhile& meanwhile) override {
    return operations_.run(layer, channels, tile, image.inputs(layer), image.output(layer), nullptr,
                           meanwhile);
  }

  CpuOperations operations_;
};

class PlannedBackend final : public HostBackend {
 public:
  PlannedBackend(const WeightSource& source, plan::PlannedOperations operations,
                 std::vector<Activations> activations)
      : HostBackend(source, std::move(activations)), operations_(std::move(operations)) {}

  Channels all_channels(uint32_t layer) const override { return operations_.all_channels(layer); }
  uint64_t scratch_bytes() const override { return operations_.scratch_bytes(); }

 private:
  Status run(uint32_t layer, Channels channels, const TileWeights& tile, const Activations& image,
             const Meanwhile& meanwhile) override {
    if (meanwhile) meanwhile();
    return operations_.run(
        layer, channels, tile,
        {image.inputs(layer), image.changed(layer), image.output(layer), image.workspace(layer)},
        times_);
  }

  plan::PlannedOperations operations_;
  plan::RunTimes times_;
};

Result<std::vector<Activations>> make_activations(const Network& network,
                                                  const memory::ActivationLayout& layout,
                                                  uint32_t batch) {
  std::vector<Activations> activations;
  for (uint32_t image = 0; image < batch; ++image) {
    auto made = Activations::make(network, layout);
    if (!made) return forward_error(std::move(made));
    activations.push_back(std::move(*made));
  }
  return activations;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu_backend(const Network& network,
                                                  const WeightSource& source,
                                                  const InferenceOptions& options,
                                                  const MayTake& may_take) {
  const memory::ActivationLayout layout = memory::lay_out(network);
  const uint64_t activation_bytes = options.batch * layout.plan.total_bytes;
  // With several images, the other images are computed between two tiles of a layer and overwrite
  // the unfolded image.
  const auto unfolding = options.batch == 1 ? ops::Unfold::once : ops::Unfold::by_tile;
  auto operations = CpuOperations::make(
      network, options.threads, CpuOperations::Scratch::own, unfolding,
      [&](uint64_t scratch_bytes) { return may_take(activation_bytes + scratch_bytes); });
  if (!operations) return forward_error(std::move(operations));
  auto activations = make_activations(network, layout, options.batch);
  if (!activations) return forward_error(std::move(activations));
  return std::make_unique<PlainBackend>(source, std::move(*operations), std::move(*activations));
}

Result<std::unique_ptr<Backend>> open_planned_backend(const Network& network,
                                                      const WeightSource& source,
                                                      plan::PlannedOperations operations,
                                                      uint32_t batch, const MayTake& may_take) {
  const memory::ActivationLayout layout = memory::lay_out(network, operations.memory());
  if (Status may = may_take(batch * layout.plan.total_bytes + operations.scratch_bytes()); !may) {
    return forward_error(std::move(may));
  }
  auto activations = make_activations(network, layout, batch);
  if (!activations) return forward_error(std::move(activations));
  return std::make_unique<PlannedBackend>(source, std::move(operations), std::move(*activations));
}

}  // namespace weightpager::infer
