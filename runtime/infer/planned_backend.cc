// Inference on this machine's processors as a plan says (plan/joint_plan.h): each convolution by
// the code that was chosen for it, workspace and copies in other layouts among the activations.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/infer/backend.h"

namespace weightpager::infer {
namespace {

using memory::Activations;
using network::WeightSource;
using ops::Channels;

class PlannedBackend final : public Backend {
 public:
  PlannedBackend(const WeightSource& source, plan::PlannedOperations operations,
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

  Status compute(uint32_t layer, Channels channels, const float* weights) override {
    ops::TileWeights tile;
    if (weights != nullptr) {
      tile = {.biases = source_.biases(layer) + channels.begin, .weights = weights};
    }
    for (const Activations& image : std::span(activations_).first(images_)) {
      Status ran = operations_.run(
          layer, channels, tile,
          {image.inputs(layer), image.changed(layer), image.output(layer), image.workspace(layer)},
          times_);
      if (!ran) return ran;
    }
    return {};
  }
  Status end() override { return {}; }
  const Activations& activations(size_t image) const override { return activations_[image]; }

  uint64_t activation_bytes() const override {
    return activations_.size() * activations_.front().layout().plan.total_bytes;
  }
  uint64_t scratch_bytes() const override { return 0; }
  DeviceMemoryUse device_memory() const override { return {}; }

 private:
  const WeightSource& source_;
  plan::PlannedOperations operations_;
  std::vector<Activations> activations_;  // by image
  size_t images_ = 0;                     // of this run
  plan::RunTimes times_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open_planned_backend(const network::Network& network,
                                                      const WeightSource& source,
                                                      plan::PlannedOperations operations,
                                                      uint32_t batch) {
  std::vector<Activations> activations;
  for (uint32_t image = 0; image < batch; ++image) {
    auto made = Activations::make(network, memory::lay_out(network, operations.memory()));
    if (!made) return forward_error(std::move(made));
    activations.push_back(std::move(*made));
  }
  return std::make_unique<PlannedBackend>(source, std::move(operations), std::move(activations));
}

}  // namespace weightpager::infer
