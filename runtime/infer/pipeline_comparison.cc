#include "runtime/infer/pipeline_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/infer/layer_measurement.h"
#include "runtime/infer/reads_beside.h"
#include "runtime/pipeline/search.h"

namespace weightpager::infer {
namespace {

using network::Network;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

/// The delay of a minimal-delay configuration may be larger than the least delay by this share.
constexpr double tolerance = 0.003;

const char* const floor_name = "Pre + reads";

/// The outputs of a run. They must be the same bits in every configuration.
using Outputs = std::vector<std::vector<float>>;

struct Arm {
  Configuration configuration;
  WindowRequest request;
  /// The reads beside kernels that compute with all weights in memory. Only for "Pre + reads".
  std::unique_ptr<ReadsBeside> beside;
};

class Comparer {
 public:
  Comparer(const Network& network, const ComparisonOptions& options)
      : network_(network), options_(options) {}

  Result<Comparison> run() {
    auto inference = open({.pipeline = Pipeline::preload});
    if (!inference) return forward_error(std::move(inference));
    inference_ = std::move(*inference);
    input_ = some_input(network_);
    input_span_ = input_;
    if (Status measured = measure_layers(); !measured) return forward_error(std::move(measured));
    if (Status added = add_pipelines(); !added) return forward_error(std::move(added));
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

  // As in the paper, each inference begins with an empty window.
  Result<std::unique_ptr<Inference>> open(const WindowRequest& request) {
    return Inference::open(network_, options_.weights_path,
                           {.window = request,
                            .device = options_.device,
                            .reads_across_inferences = false,
                            .threads = options_.threads,
                            .beside_kernels = [this] {
                              if (beside_ != nullptr) beside_->go_on();
                            }});
  }

  Status measure_layers() {
    say("measuring layers");
    constexpr int repeats = 5;
    auto sequential = open({.pipeline = Pipeline::sequential});
    if (!sequential) return forward_error(std::move(sequential));
    auto costs = infer::measure_layers(**sequential, *inference_, input_, repeats);
    if (!costs) return forward_error(std::move(costs));
    layer_costs_ = std::move(*costs);
    return {};
  }

  Status take_window(const Arm& arm) {
    beside_ = arm.beside.get();
    return inference_->set_window(arm.request);
  }

  Status add(const std::string& name, const WindowRequest& request) {
    Arm arm = {.configuration = {.name = name, .pipeline = request.pipeline}, .request = request};
    if (Status taken = take_window(arm); !taken) return taken;
    Configuration& it = arm.configuration;
    const Rings& rings = inference_->window().rings;
    it.window_bytes = inference_->window_bytes();
    it.pieces = inference_->window().pieces.size();
    it.pinned_bytes = it.window_bytes - rings.bytes();
    it.device_memory = inference_->device_memory();
    // The costs of pieces if layers are cut or pinned.
    const bool is_cut = request.window_bytes > 0;
    const auto& costs = is_cut ? inference_->window().costs : layer_costs_;
    it.predicted_ns = pipeline::delay_ns(it.pipeline, costs, rings);
    arms_.push_back(std::move(arm));
    return {};
  }

  // Adds a row before the last one: all weights in memory, beside the reads of the last row's
  // window.
  Status add_floor() {
    auto beside = ReadsBeside::make(options_.weights_path, inference_->window());
    if (!beside) return forward_error(std::move(beside));
    Arm arm = {.configuration = arms_.front().configuration,
               .request = arms_.front().request,
               .beside = std::move(*beside)};
    arm.configuration.name = floor_name;
    arm.configuration.predicted_ns = 0;
    arms_.insert(arms_.end() - 1, std::move(arm));
    return {};
  }

  Status add_pipelines() {
    const std::pair<const char*, Pipeline> pipelines[] = {{"Pre", Pipeline::preload},
                                                          {"Seq", Pipeline::sequential},
                                                          {"Sync", Pipeline::synchronous},
                                                          {"Async", Pipeline::asynchronous},
                                                          {"2S", Pipeline::two_stage}};
    for (const auto& [name, pipeline] : pipelines) {
      if (Status added = add(name, {.pipeline = pipeline, .uses_overlay = false}); !added)
        return added;
    }
    return {};
  }

  Status add_windows() {
    for (const auto& [name, pipeline] :
         {std::pair("Async-MD", Pipeline::asynchronous), {"2S-MD", Pipeline::two_stage}}) {
      const Rings rings =
          pipeline::smallest_rings_without_stalls(pipeline, layer_costs_, tolerance);
      const WindowRequest request = {.pipeline = pipeline, .rings = rings, .uses_overlay = false};
      if (Status added = add(name, request); !added) return added;
    }
    // Tiles run in the pipeline that a user would choose: on a GPU, 2S kernels read weights over
    // the bus.
    const bool is_gpu = options_.device == DeviceKind::cuda;
    for (const uint64_t window_bytes : options_.tiled_windows_bytes) {
      WindowRequest request = {.pipeline = is_gpu ? Pipeline::asynchronous : Pipeline::two_stage,
                               .window_bytes = window_bytes,
                               .uses_overlay = false,
                               .layer_costs = layer_costs_};
      Status added = add(is_gpu ? "Async tiles" : "2S tiles", request);
      if (!added) return added;
      if (is_gpu) continue;
      if (Status floored = add_floor(); !floored) return floored;
      request.uses_overlay = true;
      if (Status overlaid = add("2S overlay", request); !overlaid) return overlaid;
    }
    return {};
  }

  std::vector<double> counters() const {
    return options_.read_counters ? options_.read_counters() : std::vector<double>();
  }

  void count(std::vector<double>& counted, const std::vector<double>& before) const {
    const std::vector<double> now = counters();
    counted.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i) counted[i] += now[i] - before[i];
  }

  Status take_turn(Arm& arm) {
    if (Status taken = take_window(arm); !taken) return taken;
    std::vector<double> before;
    for (uint32_t i = 0; i <= options_.inferences_per_turn; ++i) {
      const uint64_t read_before_bytes = read_bytes(arm);
      if (Status ran = run_once(arm, i > 0); !ran) return ran;
      if (Status same = check_outputs(arm); !same) return same;
      // The first inference of a turn reads pinned weights, so it does not count.
      if (i == 0) {
        before = counters();
        continue;
      }
      arm.configuration.delays_ns.push_back(inference_->times().delay_ns());
      arm.configuration.read_bytes = read_bytes(arm) - read_before_bytes;
    }
    count(arm.configuration.counted, before);
    arm.configuration.last = {arm.configuration.name, inference_->window(), inference_->times()};
    return {};
  }

  Status run_once(const Arm& arm, bool reads_beside) {
    if (!arm.beside || !reads_beside) return inference_->run({&input_span_, 1});
    arm.beside->begin();
    Status ran = inference_->run({&input_span_, 1});
    Status read = arm.beside->finish();
    return ran ? read : ran;
  }

  uint64_t read_bytes(const Arm& arm) const {
    return arm.beside ? arm.beside->read_bytes() : inference_->read_bytes();
  }

  Status check_outputs(const Arm& arm) {
    Outputs outputs;
    for (const uint32_t layer : output_layers(network_)) {
      const float* const output = inference_->activations().output(layer);
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
                     .activation_bytes = inference_->activation_bytes(),
                     .reader = inference_->reader_name(),
                     .is_direct = inference_->is_direct()};
    uint64_t floor_ns = 0;  // for the rows that follow
    for (Arm& arm : arms_) {
      std::sort(arm.configuration.delays_ns.begin(), arm.configuration.delays_ns.end());
      const bool is_floor = arm.configuration.name == floor_name;
      if (is_floor) floor_ns = arm.configuration.median_ns();
      if (!is_floor) arm.configuration.floor_ns = floor_ns;
      it.configurations.push_back(std::move(arm.configuration));
    }
    return it;
  }

  const Network& network_;
  const ComparisonOptions& options_;
  std::vector<float> input_;
  std::span<const float> input_span_;
  std::vector<UnitCosts> layer_costs_;
  std::vector<Arm> arms_;
  ReadsBeside* beside_ = nullptr;  // belongs to the arm whose turn it is
  Outputs outputs_;
  // One inference for all arms: the delay depends by some percent on where activations lie in
  // memory.
  std::unique_ptr<Inference> inference_;
};

}  // namespace

const Configuration* Comparison::find(const std::string& name) const {
  const auto found = std::find_if(configurations.begin(), configurations.end(),
                                  [&](const Configuration& it) { return it.name == name; });
  return found == configurations.end() ? nullptr : &*found;
}

UnitCosts Comparison::all_layers() const {
  UnitCosts sums;
  for (const UnitCosts& it : layer_costs) {
    sums.size_bytes += it.size_bytes;
    sums.read_ns += it.read_ns;
    sums.copy_ns += it.copy_ns;
    sums.kernel_ns += it.kernel_ns;
  }
  return sums;
}

Result<Comparison> compare_pipelines(const Network& network, const ComparisonOptions& options) {
  return Comparer(network, options).run();
}

}  // namespace weightpager::infer
