#include "runtime/infer/inference.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "runtime/memory/activations.h"
#include "runtime/network/weight_source.h"
#include "runtime/ops/cpu/operations.h"

namespace weightpager::infer {
namespace {

using network::Layer;
using network::Network;
using network::Piece;
using network::WeightSource;
using ops::Channels;
using ops::CpuOperations;
using pipeline::Executor;
using pipeline::UnitCosts;
using pipeline::UnitTimes;

/// Memory for activations, given back at the end.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    if (floats_ != nullptr) munmap(floats_, size_bytes_);
  }

  Status take(uint64_t size_bytes) {
    void* const address =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      return fail(fmt::format("no memory for activations, {}: {}", format_size(size_bytes),
                              std::strerror(errno)),
                  "raise the memory limit, or give the network a smaller input", errno);
    }
    floats_ = static_cast<float*>(address);
    size_bytes_ = size_bytes;
    madvise(floats_, size_bytes_, MADV_HUGEPAGE);
    return {};
  }
  float* at(uint64_t offset_bytes) const { return floats_ + offset_bytes / sizeof(float); }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  float* floats_ = nullptr;
  uint64_t size_bytes_ = 0;
};

class StreamedInference final : public Inference, private pipeline::UnitWork {
 public:
  StreamedInference(const Network& network, WeightSource source, io::ModelFile file,
                    CpuOperations operations)
      : network_(network),
        source_(std::move(source)),
        file_(std::move(file)),
        operations_(std::move(operations)),
        plan_(memory::plan_activations(memory::activations_of(network_))) {}

  Status prepare(const InferenceOptions& options);

  Status run(std::span<const float> input) override;
  const std::vector<uint32_t>& output_layers() const override { return output_layers_; }
  std::span<const float> output(uint32_t layer) const override {
    WP_ASSERT(has_outputs_);
    return {activation(layer), network_.layers[layer].output.elements()};
  }
  const pipeline::Timeline& times() const override { return executor_->times(); }
  std::vector<UnitCosts> layer_costs() const override;
  const WindowUse& window() const override { return use_; }
  uint64_t window_bytes() const override { return executor_->window_bytes(); }
  uint64_t activation_bytes() const override { return arena_.size_bytes(); }
  uint64_t scratch_bytes() const override { return operations_.scratch_bytes(); }
  uint64_t read_bytes() const override { return executor_->read_bytes(); }
  const char* reader_name() const override { return executor_->reader_name(); }
  bool is_direct() const override { return file_.is_direct(); }

 private:
  Status take_in(uint32_t unit, std::span<std::byte> bytes) override;
  Status compute(uint32_t unit, const std::byte* bytes) override;

  float* activation(uint32_t layer) const { return arena_.at(plan_.offset_bytes[layer]); }

  const Network network_;
  WeightSource source_;
  const io::ModelFile file_;
  CpuOperations operations_;
  const memory::ActivationPlan plan_;
  Arena arena_;
  WindowUse use_;
  std::vector<uint32_t> output_layers_;
  std::vector<const float*> inputs_;  // of the layer that is computed
  const float* input_ = nullptr;      // of the network
  bool has_outputs_ = false;
  // Its threads use everything above: first to go.
  std::unique_ptr<Executor> executor_;
};

std::vector<uint32_t> unused_layers(const Network& network) {
  std::vector<bool> is_used(network.layers.size());
  for (const Layer& layer : network.layers) {
    for (const uint32_t input : layer.inputs) {
      if (input != network::network_input) is_used[input] = true;
    }
  }
  std::vector<uint32_t> unused;
  for (uint32_t i = 0; i < is_used.size(); ++i) {
    if (!is_used[i]) unused.push_back(i);
  }
  return unused;
}

Status StreamedInference::prepare(const InferenceOptions& options) {
  output_layers_ = unused_layers(network_);
  if (Status taken = arena_.take(plan_.total_bytes); !taken) return taken;
  auto use = use_window(network_, source_, options.window);
  if (!use) return forward_error(std::move(use));
  use_ = std::move(*use);
  auto executor =
      Executor::make(use_.units,
                     {.schedule = {.pipeline = options.window.pipeline,
                                   .rings = use_.rings,
                                   .reads_across_inferences = options.reads_across_inferences},
                      .fd = file_.fd(),
                      .file_name = source_.path(),
                      .device_read_bytes = io::device_limits(file_.fd()).read_bytes,
                      .open_reader = options.open_reader},
                     *this);
  if (!executor) return forward_error(std::move(executor));
  executor_ = std::move(*executor);
  return {};
}

Status StreamedInference::run(std::span<const float> input) {
  WP_ASSERT(input.size() == network_.input.elements());
  input_ = input.data();
  has_outputs_ = false;
  if (Status ran = executor_->run(); !ran) return ran;
  has_outputs_ = true;
  return {};
}

Status StreamedInference::take_in(uint32_t unit, std::span<std::byte> bytes) {
  auto taken = source_.take_in(use_.pieces[unit], bytes);
  if (!taken) return forward_error(std::move(taken));
  return {};
}

Status StreamedInference::compute(uint32_t unit, const std::byte* bytes) {
  const Piece& piece = use_.pieces[unit];
  const Layer& layer = network_.layers[piece.layer];
  inputs_.clear();
  for (const uint32_t input : layer.inputs) {
    inputs_.push_back(input == network::network_input ? input_ : activation(input));
  }
  float* const output = activation(piece.layer);
  if (bytes == nullptr) {
    return operations_.run(piece.layer, operations_.all_channels(piece.layer), {}, inputs_, output);
  }
  return operations_.run(piece.layer, Channels{piece.first_channel, piece.end_channel},
                         {.biases = source_.biases(piece.layer) + piece.first_channel,
                          .weights = source_.weights_in(piece, bytes)},
                         inputs_, output);
}

std::vector<UnitCosts> StreamedInference::layer_costs() const {
  std::vector<UnitCosts> costs(network_.layers.size());
  for (size_t unit = 0; unit < use_.pieces.size(); ++unit) {
    const UnitTimes& times = executor_->times().units[unit];
    UnitCosts& layer = costs[use_.pieces[unit].layer];
    layer.size_bytes += use_.units[unit].length_bytes;
    layer.read_ns += times.read.finish_ns - times.read.start_ns;
    layer.copy_ns += times.copy.finish_ns - times.copy.start_ns;
    layer.kernel_ns += times.kernel.finish_ns - times.kernel.start_ns;
  }
  return costs;
}

}  // namespace

Result<std::unique_ptr<Inference>> Inference::open(const Network& network,
                                                   const std::string& weights_path,
                                                   const InferenceOptions& options) {
  auto source = WeightSource::open(weights_path, network);
  if (!source) return forward_error(std::move(source));
  auto file = io::ModelFile::open(weights_path);
  if (!file) return forward_error(std::move(file));
  auto operations = CpuOperations::make(network, options.threads);
  if (!operations) return forward_error(std::move(operations));
  auto it = std::make_unique<StreamedInference>(network, std::move(*source), std::move(*file),
                                                std::move(*operations));
  if (Status prepared = it->prepare(options); !prepared) return forward_error(std::move(prepared));
  return it;
}

}  // namespace weightpager::infer
