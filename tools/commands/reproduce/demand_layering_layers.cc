// Table I, Figures 4 and 5: the networks, and what layers cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using pipeline::UnitCosts;

Result<Reproduction> table_1(const ReproduceSettings&) {
  Table table = {.title = "Networks, published / ours",
                 .columns = {"network", "model, MB", "layers", "largest layer, MB", "input"},
                 .rows = {},
                 .note =
                     "MB are MiB here, as in the paper. `weightpager model make --net NAME` "
                     "makes these networks, with random weights."};
  for (const PublishedPipelines& known : published) {
    const auto network = published_network(known, known.side);
    if (!network) return tl::make_unexpected(network.error());
    uint64_t largest_bytes = 0;
    for (const network::Layer& layer : network->layers)
      largest_bytes = std::max(largest_bytes, layer.raw_bytes());
    table.rows.push_back(
        {known.title,
         fmt::format("{:.1f} / {:.1f}", known.model_mib, mebibytes(network->weights_file_bytes())),
         fmt::format("{} / {}", known.layers, network->layers.size()),
         fmt::format("{:.1f} / {:.1f}", known.largest_layer_mib, mebibytes(largest_bytes)),
         fmt::format("{0}x{0} / {1}x{2}", known.side, network->input.width,
                     network->input.height)});
  }
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

Result<Reproduction> figure_4(const ReproduceSettings&) {
  const auto it = costed_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  LineChart times = {.title = "YOLOv4 by layer, on the paper's board by equation",
                     .x_label = "layer",
                     .y_label = "ms",
                     .lines = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  LineChart sizes = {
      .title = "YOLOv4 by layer", .x_label = "layer", .y_label = "MiB", .lines = {{"weights", {}}}};
  for (size_t i = 0; i < it->costs.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    times.lines[0].points.emplace_back(x, milliseconds(it->costs[i].read_ns));
    times.lines[1].points.emplace_back(x, milliseconds(it->costs[i].copy_ns));
    times.lines[2].points.emplace_back(x, milliseconds(it->costs[i].kernel_ns));
    sizes.lines[0].points.emplace_back(x, mebibytes(it->costs[i].size_bytes));
  }
  return Reproduction{.tables = {},
                      .pictures = {{"figure-4", svg_of(times)}, {"figure-4-2", svg_of(sizes)}},
                      .lacks = {}};
}

ChartLine distribution(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  ChartLine line = {.name = name, .points = {}};
  for (size_t i = 0; i < values.size(); ++i)
    line.points.emplace_back(values[i],
                             static_cast<double>(i + 1) / static_cast<double>(values.size()));
  return line;
}

Result<Reproduction> figure_5(const ReproduceSettings&) {
  const auto it = costed_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  std::array<std::vector<double>, 4> values;
  for (const UnitCosts& unit : it->costs) {
    values[0].push_back(milliseconds(unit.read_ns));
    values[1].push_back(milliseconds(unit.copy_ns));
    values[2].push_back(milliseconds(unit.kernel_ns));
  }
  size_t below_a_tenth = 0;
  size_t largest = 0;
  for (const network::Layer& layer : it->network.layers) {
    values[3].push_back(mebibytes(layer.raw_bytes()));
    below_a_tenth += values[3].back() < 0.1;
    largest += values[3].back() > 17.9;
  }
  const LineChart times = {
      .title = "Times of YOLOv4's layers",
      .x_label = "at most so many ms",
      .y_label = "share of layers",
      .lines = {distribution("read", values[0]), distribution("copy", values[1]),
                distribution("kernel", values[2])}};
  const LineChart sizes = {.title = "Sizes of YOLOv4's layers",
                           .x_label = "at most so many MiB",
                           .y_label = "share of layers",
                           .lines = {distribution("weights", values[3])}};
  Table table = {.title = "YOLOv4's layers, published / ours",
                 .columns = {"", "published", "ours"},
                 .rows = {{"layers under 0.1 MB", "75 (46 %)", fmt::format("{}", below_a_tenth)},
                          {"layers of the largest size", "6", fmt::format("{}", largest)}},
                 .note = by_equation};
  return Reproduction{.tables = {std::move(table)},
                      .pictures = {{"figure-5", svg_of(times)}, {"figure-5-2", svg_of(sizes)}},
                      .lacks = {}};
}

}  // namespace weightpager::tools::demand_layering
