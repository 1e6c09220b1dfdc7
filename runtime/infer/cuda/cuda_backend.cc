// Inference on a GPU: activations, biases and scratch memory lie in the GPU's memory; images go
// there and outputs come back once per run.
//
// All work of a run on the GPU is in one stream, in the order of the calls: images, layers,
// outputs. Only the copies of weights are in another. So no layer reads activations that are not
// computed yet, and no image overwrites memory that an earlier run still reads.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "runtime/infer/backend.h"
#include "runtime/ops/cuda/operations.h"
#include "runtime/pipeline/cuda/cuda_device.h"
#include "runtime/pipeline/cuda/device_memory.h"
#include "runtime/pipeline/cuda/status.h"

namespace weightpager::infer {
namespace {

using cuda::check;
using cuda::CudaOperations;
using cuda::DeviceMemory;
using memory::Activations;
using network::Network;
using network::WeightSource;
using ops::Channels;

uint64_t free_device_bytes() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  return cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess ? free_bytes : 0;
}

/// The memory that was taken from the GPU between two measurements. 0 if other programs freed more
/// in that time.
uint64_t taken_bytes(uint64_t free_before_bytes, uint64_t free_after_bytes) {
  return free_before_bytes > free_after_bytes ? free_before_bytes - free_after_bytes : 0;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Network& network) : network_(network) {}
  Status open(const WeightSource& source, uint32_t batch);

  std::unique_ptr<pipeline::Device> make_device() override {
    free_before_window_bytes_ = free_device_bytes();
    return cuda::make_cuda_device(stream_.get());
  }
  void on_window_taken() override {
    const uint64_t free_bytes = free_device_bytes();
    use_ = {.weights_bytes = taken_bytes(free_before_window_bytes_, free_bytes),
            .all_bytes = taken_bytes(free_before_bytes_, free_bytes)};
  }

  Status begin(std::span<const std::span<const float>> inputs) override;
  Channels all_channels(uint32_t layer) const override { return operations_->all_channels(layer); }
  Status compute(uint32_t layer, Channels channels, const float* weights,
                 const pipeline::Meanwhile& meanwhile) override;
  Status end() override;
  const Activations& activations(size_t image) const override { return outputs_[image]; }

  uint64_t activation_bytes() const override {
    return on_device_.size() * on_device_.front().layout().plan.total_bytes;
  }
  uint64_t scratch_bytes() const override { return operations_->scratch_bytes(); }
  DeviceMemoryUse device_memory() const override { return use_; }

 private:
  Status take_biases(const WeightSource& source);
  Status take_activations(uint32_t batch);

  const Network& network_;
  cuda::Stream stream_;
  std::optional<CudaOperations> operations_;
  DeviceMemory biases_;
  std::vector<const float*> layer_biases_;  // by layer
  std::vector<DeviceMemory> activation_memory_;
  std::vector<Activations> on_device_;  // by image
  // By image. Only the pages of the outputs are ever touched, so only they take memory.
  std::vector<Activations> outputs_;
  size_t images_ = 0;  // of this run
  uint64_t free_before_bytes_ = 0;
  uint64_t free_before_window_bytes_ = 0;
  DeviceMemoryUse use_;
};

Status CudaBackend::open(const WeightSource& source, uint32_t batch) {
  int devices = 0;
  Status found = check(cudaGetDeviceCount(&devices), "there is no GPU that CUDA can use");
  if (!found) return found;
  // From here on CUDA has taken the memory that it needs for itself.
  auto stream = cuda::make_stream();
  if (!stream) return forward_error(std::move(stream));
  stream_ = std::move(*stream);
  free_before_bytes_ = free_device_bytes();
  auto operations = CudaOperations::make(network_, stream_.get());
  if (!operations) return forward_error(std::move(operations));
  operations_.emplace(std::move(*operations));
  if (Status taken = take_biases(source); !taken) return taken;
  return take_activations(batch);
}

Status CudaBackend::take_biases(const WeightSource& source) {
  std::vector<float> all;
  std::vector<uint64_t> offsets;
  for (uint32_t layer = 0; layer < network_.layers.size(); ++layer) {
    offsets.push_back(all.size());
    const float* const biases = source.biases(layer);
    if (biases == nullptr) continue;
    all.insert(all.end(), biases, biases + network_.layers[layer].channels_with_bias());
  }
  auto memory = DeviceMemory::make(all.size() * sizeof(float), "biases");
  if (!memory) return forward_error(std::move(memory));
  biases_ = std::move(*memory);
  const auto* const first = reinterpret_cast<const float*>(biases_.at(0));
  for (const uint64_t offset : offsets) layer_biases_.push_back(first + offset);
  if (all.empty()) return {};
  return check(
      cudaMemcpy(biases_.at(0), all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice),
      "biases cannot be copied to the GPU");
}

Status CudaBackend::take_activations(uint32_t batch) {
  for (uint32_t image = 0; image < batch; ++image) {
    auto memory = DeviceMemory::make(memory::lay_out(network_).plan.total_bytes, "activations");
    if (!memory) return forward_error(std::move(memory));
    activation_memory_.push_back(std::move(*memory));
    on_device_.push_back(Activations::over(network_, activation_memory_.back().at(0)));
    auto outputs = Activations::make(network_);
    if (!outputs) return forward_error(std::move(outputs));
    outputs_.push_back(std::move(*outputs));
  }
  return {};
}

Status CudaBackend::begin(std::span<const std::span<const float>> inputs) {
  images_ = inputs.size();
  for (size_t image = 0; image < images_; ++image) {
    Status copied =
        check(cudaMemcpyAsync(on_device_[image].input(), inputs[image].data(),
                              inputs[image].size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
              "a picture cannot be copied to the GPU");
    if (!copied) return copied;
  }
  return {};
}

// Computes all images of the batch while the weights are here.
Status CudaBackend::compute(uint32_t layer, Channels channels, const float* weights,
                            const pipeline::Meanwhile& meanwhile) {
  ops::TileWeights tile;
  if (weights != nullptr) {
    tile = {.biases = layer_biases_[layer] + channels.begin, .weights = weights};
  }
  for (const Activations& image : std::span(on_device_).first(images_)) {
    Status started =
        operations_->run(layer, channels, tile, image.inputs(layer), image.output(layer));
    if (!started) return started;
  }
  if (meanwhile) meanwhile();
  return {};
}

Status CudaBackend::end() {
  for (size_t image = 0; image < images_; ++image) {
    for (const uint32_t layer : output_layers(network_)) {
      Status copied =
          check(cudaMemcpyAsync(outputs_[image].output(layer), on_device_[image].output(layer),
                                network_.layers[layer].output.size_bytes(), cudaMemcpyDeviceToHost,
                                stream_.get()),
                "results cannot be copied from the GPU");
      if (!copied) return copied;
    }
  }
  return check(cudaStreamSynchronize(stream_.get()), "the GPU failed");
}

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda_backend(const Network& network,
                                                   const WeightSource& source,
                                                   const InferenceOptions& options) {
  auto backend = std::make_unique<CudaBackend>(network);
  if (Status opened = backend->open(source, options.batch); !opened) {
    return forward_error(std::move(opened));
  }
  return backend;
}

}  // namespace weightpager::infer
