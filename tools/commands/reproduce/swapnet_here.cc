// See swapnet_here.h.
#include "tools/commands/reproduce/swapnet_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "pager/base/units.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/infer/block_use.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "tools/commands/reproduce/swapnet_inputs.h"

namespace weightpager::tools::swapnet {

using infer::Inference;
using infer::WindowRequest;
using network::Network;

namespace {

/// Inputs are smaller than usual where two processors would compute for seconds: the text does not
/// have their sizes.
std::optional<network::Resolution> resolution_of(const std::string& name) {
  if (name == "yolov3") return network::Resolution{416, 416};
  if (name == "fcn-resnet101") return network::Resolution{224, 224};
  return {};
}

Result<TaskHere> one_task(const std::string& name) {
  const auto text = network::make_description(name);
  if (!text) return tl::make_unexpected(text.error());
  const auto network = network::parse_network(*text, name);
  if (!network) return tl::make_unexpected(network.error());
  const uint64_t budget_bytes = network->folded_bytes() / 10 * 6;
  return TaskHere{name, name, {}, round_down(budget_bytes, os_page_bytes)};
}

/// The user's network, or a small one if it has to be quick.
std::string one_name(const ReproduceSettings& settings) {
  if (!settings.network.empty()) return settings.network;
  return settings.is_quick ? "squeezenet" : "";
}

/// The network in a pipeline of its least window.
Result<std::unique_ptr<Inference>> open(const ReproduceSettings& settings, const Network& network,
                                        const std::string& weights_path,
                                        pipeline::Pipeline pipeline, uint64_t promised_bytes) {
  return Inference::open(network, weights_path,
                         {.window = {.pipeline = pipeline},
                          .threads = settings.threads,
                          .promised_bytes = promised_bytes});
}

}  // namespace

TaskHere task_here(const PublishedTask& task) {
  const PublishedModel& known = published(task.model);
  return {.title = known.title,
          .name = known.name,
          .resolution = resolution_of(known.name),
          .budget_bytes = static_cast<uint64_t>(task.budget_mb) * mib};
}

Result<std::vector<TaskHere>> tasks_here(const ReproduceSettings& settings) {
  std::vector<TaskHere> tasks;
  if (const std::string name = one_name(settings); !name.empty()) {
    auto task = one_task(name);
    if (!task) return forward_error(std::move(task));
    tasks.push_back(std::move(*task));
    return tasks;
  }
  for (const PublishedTask& it : applications().front().tasks) tasks.push_back(task_here(it));
  return tasks;
}

Result<TaskHere> resnet_here(const ReproduceSettings& settings) {
  const std::string name = one_name(settings);
  if (!name.empty()) return one_task(name);
  return task_here({PaperModel::resnet101, resnet_budgets_mb[1], 0});
}

Result<NetworkInBlocks> NetworkInBlocks::make(const ReproduceSettings& settings,
                                              const std::string& parent, const TaskHere& task) {
  auto files = NetworkHere::make(parent, task.name);
  if (!files) return forward_error(std::move(files));
  NetworkInBlocks it(std::move(*files));
  it.network_ = it.files_.network();
  if (task.resolution) {
    auto resized = it.files_.at(*task.resolution);
    if (!resized) return forward_error(std::move(resized));
    it.network_ = std::move(*resized);
  }
  it.input_ = infer::some_input(it.network_);
  const std::string& path = it.files_.weights_path();
  auto in_memory = open(settings, it.network_, path, pipeline::Pipeline::preload, 0);
  if (!in_memory) return forward_error(std::move(in_memory));
  it.in_memory_ = std::move(*in_memory);
  auto windowed = open(settings, it.network_, path, pipeline::Pipeline::two_stage,
                       it.in_memory_->promised_bytes());
  if (!windowed) return forward_error(std::move(windowed));
  it.windowed_ = std::move(*windowed);
  const auto samples =
      infer::measure_samples(it.network_, path, settings.threads, settings.is_quick ? 1 : 5,
                             it.in_memory_->promised_bytes());
  if (!samples) return tl::make_unexpected(samples.error());
  const auto fitted = budget::fit_delays(*samples);
  if (!fitted) return tl::make_unexpected(fitted.error());
  it.model_ = fitted->model;
  const budget::BlockedNetwork modelled = infer::modelled_costs(it.network_, it.model_);
  for (const budget::LayerCosts& layer : modelled.layers)
    it.layer_costs_.push_back({.read_ns = layer.read_ns, .kernel_ns = layer.kernel_ns});
  auto costs = it.windowed_->blocked_network(it.layer_costs_, modelled.per_block);
  if (!costs) return forward_error(std::move(costs));
  it.costs_ = std::move(*costs);
  return it;
}

WindowRequest NetworkInBlocks::in_blocks(uint64_t window_bytes) const {
  return {.window_bytes = window_bytes,
          .layer_costs = layer_costs_,
          .blocks = infer::BlockRequest{.per_block = costs_.per_block}};
}

WindowRequest NetworkInBlocks::in_blocks(const budget::BlockEnds& ends,
                                         infer::Assembly assembly) const {
  WindowRequest request = in_blocks(0);
  request.blocks->ends = ends;
  request.blocks->assembly = assembly;
  return request;
}

Status NetworkInBlocks::check_outputs() const {
  for (const uint32_t layer : infer::output_layers(network_)) {
    const float* const expected = in_memory_->activations().output(layer);
    const float* const found = windowed_->activations().output(layer);
    const uint64_t bytes = network_.layers[layer].output.size_bytes();
    if (std::memcmp(expected, found, bytes) == 0) continue;
    return fail(fmt::format("{}: layer {} has other bits than with all weights in memory",
                            files_.name(), layer),
                "a defect of this program: tell its makers");
  }
  return {};
}

Result<uint64_t> NetworkInBlocks::take_window(const WindowRequest& request) {
  const uint64_t begin_ns = telemetry::monotonic_ns();
  if (Status set = windowed_->set_window(request); !set) return forward_error(std::move(set));
  return telemetry::monotonic_ns() - begin_ns;
}

Result<uint64_t> NetworkInBlocks::infer_once() {
  const std::span<const float> input = input_;
  if (Status ran = windowed_->run({&input, 1}); !ran) return forward_error(std::move(ran));
  return windowed_->times().delay_ns();
}

Result<MeasuredWay> NetworkInBlocks::run(const WindowRequest& request, int repeats) {
  if (const auto taken = take_window(request); !taken) return tl::make_unexpected(taken.error());
  MeasuredWay way = {.use = windowed_->window(), .window_bytes = windowed_->window_bytes()};
  const std::span<const float> input = input_;
  for (int i = 0; i <= repeats; ++i) {
    if (Status ran = in_memory_->run({&input, 1}); !ran) return forward_error(std::move(ran));
    const auto delay_ns = infer_once();
    if (!delay_ns) return tl::make_unexpected(delay_ns.error());
    if (Status same = check_outputs(); !same) return forward_error(std::move(same));
    if (i == 0) continue;
    way.delays_ns.push_back(*delay_ns);
    way.in_memory_ns.push_back(in_memory_->times().delay_ns());
  }
  std::sort(way.delays_ns.begin(), way.delays_ns.end());
  std::sort(way.in_memory_ns.begin(), way.in_memory_ns.end());
  return way;
}

}  // namespace weightpager::tools::swapnet
