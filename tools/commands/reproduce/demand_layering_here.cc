#include "tools/commands/reproduce/demand_layering_here.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/terminal/progress_line.h"

namespace weightpager::tools::demand_layering {

Result<Reproduction> measured_here(
    const ReproduceSettings& settings,
    const std::function<Result<Reproduction>(const NetworkHere& here)>& make) {
  const auto parent = folder_on_disk(settings);
  if (!parent) return without_disk(settings);
  const char* const chosen = settings.is_quick ? "squeezenet" : "yolov4";
  const auto here =
      NetworkHere::make(*parent, settings.network.empty() ? chosen : settings.network);
  if (!here) return tl::make_unexpected(here.error());
  return make(*here);
}

Result<std::unique_ptr<infer::Inference>> open_here(const ReproduceSettings& settings,
                                                    const NetworkHere& here,
                                                    pipeline::Pipeline which) {
  return infer::Inference::open(here.network(), here.weights_path(),
                                {.window = {.pipeline = which},
                                 .device = settings.device,
                                 .reads_across_inferences = false,
                                 .threads = settings.threads});
}

Result<infer::LayerRuns> layers_here(const ReproduceSettings& settings, const NetworkHere& here,
                                     int repeats) {
  auto sequential = open_here(settings, here, pipeline::Pipeline::sequential);
  if (!sequential) return forward_error(std::move(sequential));
  auto preloaded = open_here(settings, here, pipeline::Pipeline::preload);
  if (!preloaded) return forward_error(std::move(preloaded));
  return infer::run_layers(**sequential, **preloaded, infer::some_input(here.network()), repeats);
}

Result<infer::Comparison> compare_here(const ReproduceSettings& settings,
                                       const network::Network& network, const NetworkHere& here,
                                       infer::ComparisonOptions options) {
  ProgressLine line;
  options.weights_path = here.weights_path();
  options.device = settings.device;
  options.threads = settings.threads;
  options.inferences_per_turn = std::min(options.inferences, 3u);
  options.on_progress = [&](const std::string& text) {
    line.show(
        fmt::format("{} {}x{}: {}", here.name(), network.input.width, network.input.height, text));
  };
  auto comparison = infer::compare_pipelines(network, options);
  line.clear();
  return comparison;
}

}  // namespace weightpager::tools::demand_layering
