#include "runtime/plan/planned_network.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/ops/cpu/primitive.h"
#include "runtime/plan/aligned_floats.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;
using network::Shape;
using ops::Layout;
using ops::Primitive;
using Clock = std::chrono::steady_clock;

// A tensor that a layer takes in: as it is, or changed into memory of its own.
struct Input {
  uint32_t node = 0;
  std::optional<ops::LayoutChange> change;
  std::optional<AlignedFloats> changed;
};

struct Step {
  std::vector<Input> inputs;
  Layout layout_out = Layout::nchw;
  std::unique_ptr<ops::ConvolutionCandidate> convolution;
  std::optional<AlignedFloats> packed;
  std::vector<float> biases;
  // An activation function; or a pool, an upsampling, a sum.
  std::optional<Primitive> primitive;
  // Of what CpuOperations computes.
  ops::TileWeights weights;
};

uint64_t floats_in(const Shape& shape, Layout layout) {
  return ops::picture_bytes(shape, layout) / sizeof(float);
}

// Adds what went by since the last call.
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

}  // namespace

class PlannedNetwork::Implementation {
 public:
  Implementation(const Network& network, const Instance& instance, const Selection& selection,
                 ops::CpuOperations operations, int threads)
      : network_(network),
        instance_(instance),
        selection_(selection),
        operations_(std::move(operations)),
        stream_(ops::cpu_engine()),
        threads_(threads) {}

  Status prepare(const LayerWeights& weights) {
    omp_set_num_threads(threads_);
    outputs_.emplace_back(network_.input.size_bytes());
    layouts_.push_back(Layout::nchw);
    uint64_t workspace = 0;
    for (uint32_t number = 0; number < network_.layers.size(); ++number) {
      Step step;
      if (Status done = prepare_inputs(number, step); !done) return done;
      if (Status done = prepare_layer(number, weights, step); !done) return done;
      if (step.convolution) {
        workspace = std::max(workspace, step.convolution->traits().workspace_bytes);
      }
      outputs_.emplace_back(ops::picture_bytes(network_.layers[number].output, step.layout_out));
      layouts_.push_back(step.layout_out);
      steps_.push_back(std::move(step));
    }
    workspace_bytes_ = workspace;
    workspace_.emplace(workspace);
    return {};
  }

  Result<RunTimes> run(const float* input) {
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
    std::copy_n(input, network_.input.elements(), outputs_[0].data());
    RunTimes times;
    for (uint32_t number = 0; number < steps_.size(); ++number) {
      if (Status ran = run_step(number, times); !ran) return forward_error(std::move(ran));
    }
    return times;
  }

  Result<std::vector<float>> output(uint32_t layer) const {
    const uint32_t node = NetworkInstance::node_of_layer(layer);
    const Shape& shape = network_.layers[layer].output;
    auto change = ops::LayoutChange::make(shape, layouts_[node], Layout::nchw);
    if (!change) return forward_error(std::move(change));
    const AlignedFloats plain(shape.size_bytes());
    if (Status ran = change->run(outputs_[node].data(), plain.data()); !ran) {
      return forward_error(std::move(ran));
    }
    return std::vector<float>(plain.data(), plain.data() + shape.elements());
  }

  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  const Candidate& chosen(uint32_t layer) const {
    const uint32_t node = NetworkInstance::node_of_layer(layer);
    return instance_.nodes[node].candidates[selection_.candidates[node]];
  }

  static uint32_t node_of(uint32_t source) {
    return source == network::network_input ? 0 : NetworkInstance::node_of_layer(source);
  }
  const Shape& shape_of(uint32_t source) const {
    return source == network::network_input ? network_.input : network_.layers[source].output;
  }

  Status prepare_inputs(uint32_t number, Step& step) {
    const auto wanted = static_cast<Layout>(chosen(number).layout_in);
    for (const uint32_t source : network_.layers[number].inputs) {
      Input input{.node = node_of(source)};
      const Layout given = layouts_[input.node];
      if (given != wanted) {
        auto change = ops::LayoutChange::make(shape_of(source), given, wanted);
        if (!change) return forward_error(std::move(change));
        input.change = std::move(*change);
        input.changed.emplace(ops::picture_bytes(shape_of(source), wanted));
      }
      step.inputs.push_back(std::move(input));
    }
    return {};
  }

  Status prepare_layer(uint32_t number, const LayerWeights& weights, Step& step) {
    const Layer& layer = network_.layers[number];
    step.layout_out = static_cast<Layout>(chosen(number).layout_out);
    if (const auto* it = std::get_if<network::Convolutional>(&layer.operation)) {
      return prepare_convolution(number, *it, weights, step);
    }
    if (layer.weights() > 0) {
      step.weights = weights(number);
      weight_bytes_ += layer.folded_bytes();
    }
    if (step.layout_out == Layout::nchw) return {};
    if (std::holds_alternative<network::MaxPool>(layer.operation)) {
      return keep(Primitive::max_pool(layer, step.layout_out), step);
    }
    if (std::holds_alternative<network::Upsample>(layer.operation)) {
      return keep(Primitive::nearest_upsample(layer, step.layout_out), step);
    }
    if (const auto* it = std::get_if<network::Shortcut>(&layer.operation)) {
      return keep(Primitive::add(floats_in(layer.output, step.layout_out), it->activation), step);
    }
    return {};
  }

  Status prepare_convolution(uint32_t number, const network::Convolutional& it,
                             const LayerWeights& weights, Step& step) {
    const Layer& layer = network_.layers[number];
    auto candidates = ops::convolution_candidates(layer, threads_);
    const uint32_t node = NetworkInstance::node_of_layer(number);
    // A profile has them in this order.
    WP_ASSERT(candidates.size() == instance_.nodes[node].candidates.size());
    step.convolution = std::move(candidates[selection_.candidates[node]]);
    step.packed.emplace(step.convolution->traits().packed_bytes);
    const ops::TileWeights given = weights(number);
    step.biases.assign(given.biases, given.biases + layer.output.channels);
    weight_bytes_ +=
        step.convolution->traits().packed_bytes + layer.channels_with_bias() * sizeof(float);
    if (Status packed = step.convolution->pack(given.weights, step.packed->data()); !packed) {
      return packed;
    }
    const auto function = ops::Elementwise::of(it.activation);
    if (!function) return {};
    return keep(Primitive::elementwise(*function, floats_in(layer.output, step.layout_out)), step);
  }

  static Status keep(Result<Primitive> made, Step& step) {
    if (!made) return forward_error(std::move(made));
    step.primitive = std::move(*made);
    return {};
  }

  Status run_step(uint32_t number, RunTimes& times) {
    Step& step = steps_[number];
    float* const output = outputs_[NetworkInstance::node_of_layer(number)].data();
    Lap lap;
    std::vector<const float*> inputs;
    for (Input& input : step.inputs) {
      const float* from = outputs_[input.node].data();
      if (input.change) {
        if (Status ran = input.change->run(from, input.changed->data()); !ran) return ran;
        from = input.changed->data();
      }
      inputs.push_back(from);
    }
    lap.end(times.changes_ns);
    Status ran;
    if (step.convolution) {
      ran = step.convolution->run(
          {inputs[0], step.biases.data(), step.packed->data(), output, workspace_->data()});
      lap.end(times.convolutions_ns);
      if (ran && step.primitive) ran = step.primitive->run(stream_, {output, output});
    } else {
      ran = run_other(number, step, inputs, output);
    }
    lap.end(times.others_ns);
    return ran;
  }

  Status run_other(uint32_t number, Step& step, const std::vector<const float*>& inputs,
                   float* output) {
    const Layer& layer = network_.layers[number];
    if (step.layout_out == Layout::nchw) {
      return operations_.run(number, operations_.all_channels(number), step.weights, inputs,
                             output);
    }
    if (std::holds_alternative<network::Shortcut>(layer.operation)) {
      return step.primitive->run(stream_, {inputs[0], inputs[1], output});
    }
    if (step.primitive) return step.primitive->run(stream_, {inputs[0], output});
    // Routes, and dropout, which is one of a single input.
    concatenate(layer, step.layout_out, inputs, output);
    return {};
  }

  // Rows of numbers that lie behind each other: in blocks there is one, with channels together one
  // per pixel.
  void concatenate(const Layer& layer, Layout layout, const std::vector<const float*>& inputs,
                   float* output) const {
    const uint64_t rows =
        layout == Layout::nhwc ? uint64_t{layer.output.height} * layer.output.width : 1;
    const uint64_t row_floats = floats_in(layer.output, layout) / rows;
    uint64_t begin = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint64_t part = floats_in(shape_of(layer.inputs[i]), layout) / rows;
#pragma omp parallel for num_threads(threads_)
      for (uint64_t row = 0; row < rows; ++row) {
        std::copy_n(inputs[i] + row * part, part, output + row * row_floats + begin);
      }
      begin += part;
    }
  }

  const Network& network_;
  const Instance instance_;
  const Selection selection_;
  ops::CpuOperations operations_;
  dnnl::stream stream_;
  const int threads_;
  // By node: the input, then layers.
  std::vector<AlignedFloats> outputs_;
  std::vector<Layout> layouts_;
  // By layer.
  std::vector<Step> steps_;
  uint64_t weight_bytes_ = 0;
  uint64_t workspace_bytes_ = 0;
  std::optional<AlignedFloats> workspace_;
};

PlannedNetwork::PlannedNetwork(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
PlannedNetwork::PlannedNetwork(PlannedNetwork&&) noexcept = default;
PlannedNetwork::~PlannedNetwork() = default;

Result<PlannedNetwork> PlannedNetwork::make(const Network& network, const Instance& instance,
                                            const Selection& selection, const LayerWeights& weights,
                                            int threads) {
  auto operations = ops::CpuOperations::make(network, threads);
  if (!operations) return forward_error(std::move(operations));
  try {
    auto made = std::make_unique<Implementation>(network, instance, selection,
                                                 std::move(*operations), threads);
    if (Status done = made->prepare(weights); !done) return forward_error(std::move(done));
    return PlannedNetwork(std::move(made));
  } catch (const std::bad_alloc&) {
    return fail("out of memory for a network's weights and activations",
                "leave more memory, or plan with a smaller --budget");
  }
}

Result<RunTimes> PlannedNetwork::run(const float* input) { return implementation_->run(input); }

Result<std::vector<float>> PlannedNetwork::output(uint32_t layer) const {
  return implementation_->output(layer);
}

uint64_t PlannedNetwork::weight_bytes() const { return implementation_->weight_bytes(); }
uint64_t PlannedNetwork::workspace_bytes() const { return implementation_->workspace_bytes(); }

}  // namespace weightpager::plan
