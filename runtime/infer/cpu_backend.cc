// Inference on this machine's processors: everything lies in the process's memory, and what is
// computed is there when `compute` returns.
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

class CpuBackend final : public Backend {
 public:
  CpuBackend(const WeightSource& source, CpuOperations operations,
             std::vector<Activations> activations)
      : source_(source), operations_(std::move(operations)), activations_(std::move(activations)) {}

  std::unique_ptr<pipeline::Device> make_device() override { return pipeline::make_host_device(); }
  void on_window_taken() override {}

  Status begin(std::span<const std::span<const float>> inputs) override {
    images_ = inputs.size();
    for (size_t image = 0; image < images_; ++image) {
      std::copy(inputs[image].begin(), inputs[image].end(), activations_[image].input());
    }
    return {};
  }

  Channels all_channels(uint32_t layer) const override { return operations_.all_channels(layer); }

  // While the weights are here, all images go by.
  Status compute(uint32_t layer, Channels channels, const float* weights) override {
    ops::TileWeights tile;
    if (weights != nullptr) {
      tile = {.biases = source_.biases(layer) + channels.begin, .weights = weights};
    }
    for (const Activations& image : std::span(activations_).first(images_)) {
      Status ran = operations_.run(layer, channels, tile, image.inputs(layer), image.output(layer));
      if (!ran) return ran;
    }
    return {};
  }
  Status end() override { return {}; }
  const Activations& activations(size_t image) const override { return activations_[image]; }

  uint64_t activation_bytes() const override {
    return activations_.size() * activations_.front().layout().plan.total_bytes;
  }
  uint64_t scratch_bytes() const override { return operations_.scratch_bytes(); }
  DeviceMemoryUse device_memory() const override { return {}; }

 private:
  const WeightSource& source_;
  CpuOperations operations_;
  std::vector<Activations> activations_;  // by image
  size_t images_ = 0;                     // of this run
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu_backend(const Network& network,
                                                  const WeightSource& source,
                                                  const InferenceOptions& options) {
  auto operations = CpuOperations::make(network, options.threads);
  if (!operations) return forward_error(std::move(operations));
  std::vector<Activations> activations;
  for (uint32_t image = 0; image < options.batch; ++image) {
    auto made = Activations::make(network);
    if (!made) return forward_error(std::move(made));
    activations.push_back(std::move(*made));
  }
  return std::make_unique<CpuBackend>(source, std::move(*operations), std::move(activations));
}

}  // namespace weightpager::infer
