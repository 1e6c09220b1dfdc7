#include "runtime/plan/planned_operations.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/ops/cpu/convolution_candidate.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/ops/cpu/primitive.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;
using ops::Layout;
using ops::Primitive;
using Clock = std::chrono::steady_clock;

struct Step {
  LayerChoice choice;
  // By input; nothing where the input already has the layout.
  std::vector<std::optional<ops::LayoutChange>> changes;
  std::unique_ptr<ops::ConvolutionCandidate> convolution;
  // An activation function, a pool, an upsampling or a sum. In Darknet's layout CpuOperations
  // computes the last three.
  std::optional<Primitive> primitive;
};

// Adds the time since the last call.
class Lap {
 public:
  void end(double& sum_ns) {
    const auto now = Clock::now();
    sum_ns += std::chrono::duration<double, std::nano>(now - began_).count();
    began_ = now;
  }

 private:
  Clock::time_point began_ = Clock::now();
};

// Whether plain operations compute the layer. They make no code for other layers.
bool runs_plainly(const Layer& layer, const LayerChoice& choice) {
  if (std::holds_alternative<network::Convolutional>(layer.operation)) {
    return choice.has_plain_weights();
  }
  return choice.layout_out == Layout::nchw;
}

}  // namespace

class PlannedOperations::Implementation {
 public:
  Implementation(const Network& network, ops::CpuOperations operations, int threads)
      : network_(network),
        operations_(std::move(operations)),
        stream_(ops::cpu_engine()),
        threads_(threads) {}

  Status prepare(std::span<const LayerChoice> choices) {
    omp_set_num_threads(threads_);
    std::vector<uint64_t> workspace_bytes;
    for (uint32_t number = 0; number < network_.layers.size(); ++number) {
      Step step{.choice = choices[number]};
      if (Status done = prepare_inputs(number, choices, step); !done) return done;
      if (Status done = prepare_layer(number, step); !done) return done;
      workspace_bytes.push_back(step.convolution ? step.convolution->traits().workspace_bytes
                                                 : operations_.scratch_bytes(number));
      forms_.push_back(form_of(number, step));
      steps_.push_back(std::move(step));
    }
    memory_ = memory_of(network_, choices, workspace_bytes);
    take_scratch();
    return {};
  }

  const std::vector<memory::LayerMemory>& memory() const { return memory_; }
  const network::WeightForms& weight_forms() const { return forms_; }
  uint64_t scratch_bytes() const {
    return operations_.scratch_bytes() + scratch_.size() * sizeof(float);
  }

  bool is_tile_boundary(uint32_t layer, uint32_t channel) const {
    if (!steps_[layer].convolution) return operations_.is_tile_boundary(layer, channel);
    return channel == 0 || channel == network_.layers[layer].output.channels;
  }
  ops::Channels all_channels(uint32_t layer) const { return operations_.all_channels(layer); }

  Status pack(uint32_t layer, const float* plain, float* packed) {
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
    if (steps_[layer].convolution) return steps_[layer].convolution->pack(plain, packed);
    std::copy_n(plain, network_.layers[layer].weights(), packed);
    return {};
  }

  Status run(uint32_t layer, ops::Channels channels, const ops::TileWeights& weights,
             const LayerPointers& pointers, RunTimes& times) {
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
    Step& step = steps_[layer];
    Lap lap;
    inputs_.assign(pointers.inputs.begin(), pointers.inputs.end());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!step.changes[i]) continue;
      // A layer's first tile changes the inputs; the later tiles find them changed.
      if (channels.begin == 0) {
        Status ran = step.changes[i]->run(inputs_[i], pointers.changed[i]);
        if (!ran) return ran;
      }
      inputs_[i] = pointers.changed[i];
    }
    lap.end(times.changes_ns);
    Status ran;
    if (step.convolution) {
      ran = step.convolution->run(
          {inputs_[0], weights.biases, weights.weights, pointers.output, pointers.workspace});
      lap.end(times.convolutions_ns);
      if (ran && step.primitive) {
        ran = step.primitive->run(stream_, {pointers.output, pointers.output});
      }
    } else {
      ran = run_other(layer, channels, weights, pointers);
    }
    lap.end(is_convolution(layer) && !step.convolution ? times.convolutions_ns : times.others_ns);
    return ran;
  }

 private:
  bool is_convolution(uint32_t layer) const {
    return std::holds_alternative<network::Convolutional>(network_.layers[layer].operation);
  }
  network::WeightForm form_of(uint32_t number, const Step& step) const {
    if (!step.convolution) return {"", network_.layers[number].weights() * sizeof(float)};
    const auto& traits = step.convolution->traits();
    return {fmt::format("{} {}-{}", traits.name, ops::layout_name(traits.layout_in),
                        ops::layout_name(traits.layout_out)),
            traits.packed_bytes};
  }

  Status prepare_inputs(uint32_t number, std::span<const LayerChoice> choices, Step& step) const {
    for (const uint32_t source : network_.layers[number].inputs) {
      const Layout given = layout_given(choices, source);
      const Layout wanted = step.choice.layout_in;
      step.changes.emplace_back();
      if (given == wanted) continue;
      auto change = ops::LayoutChange::make(network_.shape_of(source), given, wanted);
      if (!change) return forward_error(std::move(change));
      step.changes.back() = std::move(*change);
    }
    return {};
  }

  Status prepare_layer(uint32_t number, Step& step) {
    const Layer& layer = network_.layers[number];
    const Layout layout = step.choice.layout_out;
    if (const auto* it = std::get_if<network::Convolutional>(&layer.operation)) {
      if (step.choice.has_plain_weights()) return {};
      step.convolution = ops::convolution_candidate(layer, threads_, step.choice.computed_by,
                                                    step.choice.layout_in, layout);
      if (!step.convolution) {
        return fail(fmt::format("{}: this machine does not compute it by {} from {} to {}",
                                network::describe_layer(network_, number), step.choice.computed_by,
                                ops::layout_name(step.choice.layout_in), ops::layout_name(layout)),
                    "make the plan on this machine: weightpager plan NET.cfg --budget SIZE");
      }
      const auto function = ops::Elementwise::of(it->activation);
      if (!function) return {};
      return keep(Primitive::elementwise(*function, ops::picture_floats(layer.output, layout)),
                  step);
    }
    if (layout == Layout::nchw) return {};
    if (std::holds_alternative<network::MaxPool>(layer.operation)) {
      return keep(Primitive::max_pool(layer, layout), step);
    }
    if (std::holds_alternative<network::Upsample>(layer.operation)) {
      return keep(Primitive::nearest_upsample(layer, layout), step);
    }
    if (const auto* it = std::get_if<network::Shortcut>(&layer.operation)) {
      return keep(Primitive::add(ops::picture_floats(layer.output, layout), it->activation), step);
    }
    return {};
  }

  // One scratch is enough for all steps, since they run one after the other.
  void take_scratch() {
    uint64_t bytes = 0;
    for (const Step& it : steps_) {
      if (it.primitive) bytes = std::max(bytes, it.primitive->scratch_bytes());
    }
    if (bytes == 0) return;
    scratch_.resize((bytes + Primitive::scratch_alignment) / sizeof(float));
    void* const begin = reinterpret_cast<void*>(
        round_up(reinterpret_cast<uintptr_t>(scratch_.data()), Primitive::scratch_alignment));
    for (Step& it : steps_) {
      if (it.primitive) it.primitive->use_scratch(begin);
    }
  }

  static Status keep(Result<Primitive> made, Step& step) {
    if (!made) return forward_error(std::move(made));
    step.primitive = std::move(*made);
    return {};
  }

  Status run_other(uint32_t number, ops::Channels channels, const ops::TileWeights& weights,
                   const LayerPointers& pointers) {
    const Layer& layer = network_.layers[number];
    Step& step = steps_[number];
    if (step.choice.layout_out == Layout::nchw) {
      return operations_.run(number, channels, weights, inputs_, pointers.output,
                             pointers.workspace);
    }
    if (std::holds_alternative<network::Shortcut>(layer.operation)) {
      return step.primitive->run(stream_, {inputs_[0], inputs_[1], pointers.output});
    }
    if (step.primitive) return step.primitive->run(stream_, {inputs_[0], pointers.output});
    // Routes, and dropout, which is a route of one input: its output may lie over that input.
    if (inputs_.size() > 1 || inputs_[0] != pointers.output) {
      concatenate(layer, step.choice.layout_out, pointers.output);
    }
    return {};
  }

  // Copies rows of numbers that lie behind each other. In blocks all is one row; with channels
  // together there is one row per pixel.
  void concatenate(const Layer& layer, Layout layout, float* output) const {
    const uint64_t rows =
        layout == Layout::nhwc ? uint64_t{layer.output.height} * layer.output.width : 1;
    const uint64_t row_floats = ops::picture_floats(layer.output, layout) / rows;
    uint64_t begin = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const uint64_t part = ops::picture_floats(network_.shape_of(layer.inputs[i]), layout) / rows;
#pragma omp parallel for num_threads(threads_)
      for (uint64_t row = 0; row < rows; ++row) {
        std::copy_n(inputs_[i] + row * part, part, output + row * row_floats + begin);
      }
      begin += part;
    }
  }

  const Network network_;
  ops::CpuOperations operations_;
  dnnl::stream stream_;
  const int threads_;
  std::vector<Step> steps_;
  std::vector<memory::LayerMemory> memory_;
  network::WeightForms forms_;
  std::vector<const float*> inputs_;  // of the layer that runs
  std::vector<float> scratch_;
};

PlannedOperations::PlannedOperations(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
PlannedOperations::PlannedOperations(PlannedOperations&&) noexcept = default;
PlannedOperations& PlannedOperations::operator=(PlannedOperations&&) noexcept = default;
PlannedOperations::~PlannedOperations() = default;

Result<PlannedOperations> PlannedOperations::make(const Network& network,
                                                  std::span<const LayerChoice> choices,
                                                  int threads) {
  WP_ASSERT(choices.size() == network.layers.size());
  auto operations = ops::CpuOperations::make(
      network, threads, ops::CpuOperations::Scratch::callers, ops::Unfold::by_tile, {},
      [&](uint32_t it) { return runs_plainly(network.layers[it], choices[it]); });
  if (!operations) return forward_error(std::move(operations));
  auto made = std::make_unique<Implementation>(network, std::move(*operations), threads);
  if (Status done = made->prepare(choices); !done) return forward_error(std::move(done));
  return PlannedOperations(std::move(made));
}

const std::vector<memory::LayerMemory>& PlannedOperations::memory() const {
  return implementation_->memory();
}
const network::WeightForms& PlannedOperations::weight_forms() const {
  return implementation_->weight_forms();
}
uint64_t PlannedOperations::scratch_bytes() const { return implementation_->scratch_bytes(); }
bool PlannedOperations::is_tile_boundary(uint32_t layer, uint32_t channel) const {
  return implementation_->is_tile_boundary(layer, channel);
}
ops::Channels PlannedOperations::all_channels(uint32_t layer) const {
  return implementation_->all_channels(layer);
}
Status PlannedOperations::pack(uint32_t layer, const float* plain, float* packed) {
  return implementation_->pack(layer, plain, packed);
}
Status PlannedOperations::run(uint32_t layer, ops::Channels channels,
                              const ops::TileWeights& weights, const LayerPointers& pointers,
                              RunTimes& times) {
  return implementation_->run(layer, channels, weights, pointers, times);
}

network::PackOptions packing_for(PlannedOperations& operations, const std::string& weights_path,
                                 const std::string& output_path) {
  return {.weights_path = weights_path,
          .output_path = output_path,
          .forms = operations.weight_forms(),
          .bring_into_form = [&operations](uint32_t layer, const float* plain, float* formed) {
            return operations.pack(layer, plain, formed);
          }};
}

}  // namespace weightpager::plan
