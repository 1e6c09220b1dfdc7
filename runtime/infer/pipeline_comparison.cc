#include "runtime/infer/pipeline_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/infer/layer_measurement.h"
#include "runtime/pipeline/search.h"

namespace weightpager::infer {
namespace {

using network::Network;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

/// How near to the least delay a minimal-delay configuration has to be.
constexpr double tolerance = 0.003;

/// Outputs of a run, to be the same bits in every configuration.
using Outputs = std::vector<std::vector<float>>;

struct Arm {
  Configuration configuration;
  std::unique_ptr<Inference> inference;
};

class Comparer {
 public:
  Comparer(const Network& network, const ComparisonOptions& options)
      : network_(network), options_(options), input_(some_input(network)), input_span_(input_) {}

  Result<Comparison> run() {
    if (Status added = add_pipelines(); !added) return forward_error(std::move(added));
    if (Status measured = measure_layers(); !measured) return forward_error(std::move(measured));
    if (Status added = add_windows(); !added) return forward_error(std::move(added));
    const uint32_t turns =
        (options_.inferences + options_.inferences_per_turn - 1) / options_.inferences_per_turn;
    for (uint32_t turn = 0; turn < turns; ++turn) {
      say(fmt::format("round {} of {}", turn + 1, turns));
      for (Arm& arm : arms_) {
        if (Status taken = take_turn(arm); !taken) return forward_error(std::move(taken));
      }
    }
    return report();
  }

 private:
  void say(const std::string& text) const {
    if (options_.on_progress) options_.on_progress(text);
  }

  Status add(const std::string& name, const WindowRequest& request) {
    InferenceOptions options = {
        .window = request, .device = options_.device, .threads = options_.threads};
    // As in the paper, each inference begins with an empty window.
    options.reads_across_inferences = false;
    auto inference = Inference::open(network_, options_.weights_path, options);
    if (!inference) return forward_error(std::move(inference));
    Arm arm = {.configuration = {.name = name, .pipeline = request.pipeline},
               .inference = std::move(*inference)};
    Configuration& it = arm.configuration;
    it.window_bytes = arm.inference->window_bytes();
    it.pieces = arm.inference->window().pieces.size();
    it.pinned_bytes = it.window_bytes - arm.inference->window().rings.bytes();
    it.device_memory = arm.inference->device_memory();
    arms_.push_back(std::move(arm));
    return {};
  }

  Status add_pipelines() {
    const std::pair<const char*, Pipeline> pipelines[] = {{"Pre", Pipeline::preload},
                                                          {"Seq", Pipeline::sequential},
                                                          {"Sync", Pipeline::synchronous},
                                                          {"Async", Pipeline::asynchronous},
                                                          {"2S", Pipeline::two_stage}};
    for (const auto& [name, pipeline] : pipelines) {
      if (Status added = add(name, {.pipeline = pipeline}); !added) return added;
    }
    return {};
  }

  Status measure_layers() {
    say("measuring layers");
    constexpr int repeats = 5;
    auto costs = infer::measure_layers(*arms_[1].inference, *arms_[0].inference, input_, repeats);
    if (!costs) return forward_error(std::move(costs));
    layer_costs_ = std::move(*costs);
    for (Arm& arm : arms_) {
      arm.configuration.predicted_ns = pipeline::delay_ns(arm.configuration.pipeline, layer_costs_,
                                                          arm.inference->window().rings);
    }
    return {};
  }

  Status add_windows() {
    for (const auto& [name, pipeline] :
         {std::pair("Async-MD", Pipeline::asynchronous), {"2S-MD", Pipeline::two_stage}}) {
      const Rings rings =
          pipeline::smallest_rings_without_stalls(pipeline, layer_costs_, tolerance);
      if (Status added = add(name, {.pipeline = pipeline, .rings = rings}); !added) return added;
      arms_.back().configuration.predicted_ns = pipeline::delay_ns(pipeline, layer_costs_, rings);
    }
    // In the pipeline that one would use: on a GPU, 2S computes over the bus.
    const bool is_gpu = options_.device == DeviceKind::cuda;
    for (const uint64_t window_bytes : options_.tiled_windows_bytes) {
      const WindowRequest request = {
          .pipeline = is_gpu ? Pipeline::asynchronous : Pipeline::two_stage,
          .window_bytes = window_bytes,
          .layer_costs = layer_costs_};
      if (Status added = add(is_gpu ? "Async tiles" : "2S tiles", request); !added) return added;
    }
    return {};
  }

  Status take_turn(Arm& arm) {
    for (uint32_t i = 0; i <= options_.inferences_per_turn; ++i) {
      const uint64_t read_before_bytes = arm.inference->read_bytes();
      if (Status ran = arm.inference->run({&input_span_, 1}); !ran) return ran;
      if (Status same = check_outputs(arm); !same) return same;
      if (i == 0) continue;
      arm.configuration.delays_ns.push_back(arm.inference->times().delay_ns());
      arm.configuration.read_bytes = arm.inference->read_bytes() - read_before_bytes;
    }
    return {};
  }

  Status check_outputs(const Arm& arm) {
    Outputs outputs;
    for (const uint32_t layer : output_layers(network_)) {
      const float* const output = arm.inference->activations().output(layer);
      outputs.emplace_back(output, output + network_.layers[layer].output.elements());
    }
    if (outputs_.empty()) outputs_ = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t size_bytes = outputs[i].size() * sizeof(float);
      if (std::memcmp(outputs[i].data(), outputs_[i].data(), size_bytes) == 0) continue;
      return fail(fmt::format("{} with a window of {} bytes computes other numbers than {}",
                              arm.configuration.name, arm.configuration.window_bytes,
                              arms_.front().configuration.name),
                  "this is a fault of weightpager: please report it, with the network");
    }
    return {};
  }

  Comparison report() {
    Comparison it = {.layer_costs = layer_costs_,
                     .activation_bytes = arms_.front().inference->activation_bytes(),
                     .reader = arms_.front().inference->reader_name(),
                     .is_direct = arms_.front().inference->is_direct()};
    for (Arm& arm : arms_) {
      std::sort(arm.configuration.delays_ns.begin(), arm.configuration.delays_ns.end());
      arm.configuration.last = {arm.configuration.name, arm.inference->window().pieces,
                                arm.inference->times()};
      it.configurations.push_back(std::move(arm.configuration));
    }
    return it;
  }

  const Network& network_;
  const ComparisonOptions& options_;
  std::vector<float> input_;
  std::span<const float> input_span_;
  std::vector<Arm> arms_;
  std::vector<UnitCosts> layer_costs_;
  Outputs outputs_;
};

}  // namespace

Result<Comparison> compare_pipelines(const Network& network, const ComparisonOptions& options) {
  return Comparer(network, options).run();
}

}  // namespace weightpager::infer
