// Figures 4, 5 and 8 on this machine: what each layer costs, and by how much that varies.
//
// The sequential pipeline does one thing at a time, so it tells reads and copies; with all weights
// in memory kernels run as they do in Pre (runtime/infer/layer_measurement.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/infer/layer_measurement.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using infer::LayerRuns;
using pipeline::UnitCosts;

namespace {

struct Stage {
  const char* name;
  uint64_t UnitCosts::*time_ns;
};
constexpr std::array<Stage, 3> stages = {{{"read", &UnitCosts::read_ns},
                                          {"copy", &UnitCosts::copy_ns},
                                          {"kernel", &UnitCosts::kernel_ns}}};

/// Layers of more than the first size and of at most the second, in MiB.
struct SizeClass {
  double above_mib;
  double most_mib;
};
constexpr std::array<SizeClass, 7> size_classes = {
    {{-1, 0}, {0, 0.1}, {0.1, 1}, {1, 5}, {5, 10}, {10, 20}, {20, HUGE_VAL}}};

const std::vector<std::string> spread_columns = {"least",          "first quartile", "median",
                                                 "third quartile", "99 %",           "most"};

/// The cells of these columns.
std::vector<std::string> spread_of(std::vector<double> values_ms) {
  std::sort(values_ms.begin(), values_ms.end());
  std::vector<std::string> cells;
  const auto last = static_cast<double>(values_ms.size() - 1);
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.99, 1.0}) {
    const auto index = static_cast<size_t>(std::ceil(share * last));
    cells.push_back(fmt::format("{:.3f}", values_ms[index]));
  }
  return cells;
}

/// What one stage of these layers took, in all runs.
std::vector<double> times_ms(const LayerRuns& runs, std::span<const size_t> layers,
                             const Stage& stage) {
  std::vector<double> times;
  for (const auto& run : runs) {
    for (const size_t layer : layers) times.push_back(milliseconds(run[layer].*stage.time_ns));
  }
  return times;
}

std::vector<size_t> layers_in(const network::Network& network, const SizeClass& sizes) {
  std::vector<size_t> layers;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const double mib = mebibytes(network.layers[i].folded_bytes());
    if (mib > sizes.above_mib && mib <= sizes.most_mib) layers.push_back(i);
  }
  return layers;
}

std::string class_words(const SizeClass& sizes) {
  if (sizes.most_mib == 0) return "none";
  if (sizes.most_mib == HUGE_VAL) return fmt::format("above {}", sizes.above_mib);
  return fmt::format("{} to {}", sizes.above_mib, sizes.most_mib);
}

/// Only kernels of layers without weights take time.
size_t first_stage_of(bool has_weights) { return has_weights ? 0 : 2; }

Table by_size(const LayerRuns& runs, const NetworkHere& here, const std::string& note) {
  Table table = {.title = fmt::format("This machine: times of {}'s layers by their size, ms, {} "
                                      "inferences (Figure 5)",
                                      here.name(), runs.size()),
                 .columns = {"weights, MiB", "layers", "operation"},
                 .rows = {},
                 .note = note};
  table.columns.insert(table.columns.end(), spread_columns.begin(), spread_columns.end());
  for (const SizeClass& sizes : size_classes) {
    const std::vector<size_t> layers = layers_in(here.network(), sizes);
    if (layers.empty()) continue;
    for (size_t stage = first_stage_of(sizes.most_mib > 0); stage < stages.size(); ++stage) {
      std::vector<std::string> row = {class_words(sizes), fmt::format("{}", layers.size()),
                                      stages[stage].name};
      const auto cells = spread_of(times_ms(runs, layers, stages[stage]));
      row.insert(row.end(), cells.begin(), cells.end());
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

/// The layers whose sizes are to the largest one's as those of the paper's Figure 8: 4, 9 and 18
/// MB. In YOLOv4 they are the same two, and another one of the six largest.
std::vector<size_t> selected_layers(const network::Network& network) {
  const auto largest = static_cast<double>(network.largest_folded_bytes());
  std::vector<size_t> selected;
  for (const double share : {4.0 / 18, 9.0 / 18, 1.0}) {
    const auto distance = [&](const network::Layer& it) {
      return std::abs(static_cast<double>(it.folded_bytes()) - share * largest);
    };
    const auto nearest = std::min_element(network.layers.begin(), network.layers.end(),
                                          [&](const network::Layer& a, const network::Layer& b) {
                                            return distance(a) < distance(b);
                                          });
    selected.push_back(static_cast<size_t>(nearest - network.layers.begin()));
  }
  return selected;
}

std::string layer_words(const network::Network& network, size_t layer) {
  return fmt::format("layer {}, {:.1f} MiB", layer + 1,
                     mebibytes(network.layers[layer].folded_bytes()));
}

Table of_selected(const LayerRuns& runs, const NetworkHere& here) {
  Table table = {.title = fmt::format("This machine: times of selected layers, ms, {} inferences "
                                      "(Figure 8)",
                                      runs.size()),
                 .columns = {"layer", "operation"},
                 .rows = {},
                 .note =
                     "Layers are numbered from 1, as in the paper. Its values are in its "
                     "pictures alone."};
  table.columns.insert(table.columns.end(), spread_columns.begin(), spread_columns.end());
  for (const size_t layer : selected_layers(here.network())) {
    for (const Stage& stage : stages) {
      std::vector<std::string> row = {layer_words(here.network(), layer), stage.name};
      const auto cells = spread_of(times_ms(runs, std::array{layer}, stage));
      row.insert(row.end(), cells.begin(), cells.end());
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

void draw_layers(const std::vector<UnitCosts>& costs, const std::string& name, Reproduction& made) {
  LineChart by_layer = {.title = fmt::format("This machine: {} by layer, medians (Figure 4)", name),
                        .x_label = "layer",
                        .y_label = "ms",
                        .lines = {}};
  LineChart shares = {
      .title = fmt::format("This machine: times of {}'s layers, medians (Figure 5)", name),
      .x_label = "at most so many ms",
      .y_label = "share of layers",
      .lines = {}};
  for (const Stage& stage : stages) {
    ChartLine line = {.name = stage.name, .points = {}};
    std::vector<double> values;
    for (size_t i = 0; i < costs.size(); ++i) {
      values.push_back(milliseconds(costs[i].*stage.time_ns));
      line.points.emplace_back(static_cast<double>(i + 1), values.back());
    }
    by_layer.lines.push_back(std::move(line));
    shares.lines.push_back(distribution(stage.name, std::move(values)));
  }
  made.pictures.push_back({"figure-5-here-by-layer", svg_of(by_layer)});
  made.pictures.push_back({"figure-5-here", svg_of(shares)});
}

void draw_selected(const LayerRuns& runs, const network::Network& network, Reproduction& made) {
  for (const Stage& stage : stages) {
    LineChart chart = {
        .title = fmt::format("This machine: {} times of selected layers (Figure 8)", stage.name),
        .x_label = "at most so many ms",
        .y_label = "share of inferences",
        .lines = {}};
    for (const size_t layer : selected_layers(network))
      chart.lines.push_back(
          distribution(layer_words(network, layer), times_ms(runs, std::array{layer}, stage)));
    made.pictures.push_back({fmt::format("figure-8-here-{}", stage.name), svg_of(chart)});
  }
}

}  // namespace

Result<Reproduction> figure_5_here(const ReproduceSettings& settings) {
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    const auto runs = layers_here(settings, here, settings.is_quick ? 3 : 24);
    if (!runs) return tl::make_unexpected(runs.error());
    const bool is_gpu = settings.device == infer::DeviceKind::cuda;
    const std::string note = fmt::format(
        "{} {}", machine_note(settings),
        is_gpu ? "A copy goes from pinned memory to the GPU's."
               : "A copy goes from the memory that was read into to the memory that is computed "
                 "from; in 2S there is none.");
    Reproduction made;
    made.tables = {by_size(*runs, here, note), of_selected(*runs, here)};
    draw_layers(infer::median_costs(*runs), here.name(), made);
    draw_selected(*runs, here.network(), made);
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
