// Figures 6, 14 and 15: what the size of the input changes.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "runtime/pipeline/timeline.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

Result<Reproduction> figure_6(const ReproduceSettings& settings) {
  const auto it = costed_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  LineChart chart = {.title = "Total times of YOLOv4 by input resolution",
                     .x_label = "pixels of a side",
                     .y_label = "ms",
                     .lines = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  Table table = {.title = "Total times of YOLOv4, ms",
                 .columns = {"input", "read", "copy", "kernel"},
                 .rows = {},
                 .note = by_equation};
  constexpr std::array parts = {&UnitCosts::read_ns, &UnitCosts::copy_ns, &UnitCosts::kernel_ns};
  for (const uint32_t side : sides_of_pictures(settings, published[yolov4])) {
    const auto costs = costs_at(*it, side);
    if (!costs) return tl::make_unexpected(costs.error());
    std::vector<std::string> row = {fmt::format("{0}x{0}", side)};
    for (size_t i = 0; i < parts.size(); ++i) {
      const double total_ms = milliseconds(sum_of(*costs, parts[i]));
      chart.lines[i].points.emplace_back(side, total_ms);
      row.push_back(fmt::format("{:.1f}", total_ms));
    }
    table.rows.push_back(std::move(row));
  }
  return Reproduction{
      .tables = {std::move(table)}, .pictures = {{"figure-6", svg_of(chart)}}, .lacks = {}};
}

namespace {

/// 2S, 2S-MD and, if `has_pre`, Pre by input resolution: what `value_of` a network's costs and
/// rings is.
template <typename Value>
Result<Reproduction> by_resolution(const ReproduceSettings& settings, const std::string& figure,
                                   const std::string& unit, bool has_pre, Value value_of) {
  Reproduction made;
  Table table = {.title = unit,
                 .columns = {"network", "input", "2S", "2S-MD"},
                 .rows = {},
                 .note = by_equation};
  if (has_pre) table.columns.emplace_back("Pre");
  for (const PublishedPipelines& known : published) {
    const auto it = costed_network(known);
    if (!it) return tl::make_unexpected(it.error());
    LineChart chart = {.title = fmt::format("{} by input resolution", known.title),
                       .x_label = "pixels of a side",
                       .y_label = unit,
                       .lines = {{"2S", {}}, {"2S-MD", {}}}};
    if (has_pre) chart.lines.push_back({"Pre", {}, true});
    for (const uint32_t side : sides_of_pictures(settings, known)) {
      const auto costs = costs_at(*it, side);
      if (!costs) return tl::make_unexpected(costs.error());
      std::vector<double> values = {value_of(*costs, rings_of(compared[4], *costs)),
                                    value_of(*costs, rings_of(compared[5], *costs))};
      if (has_pre) values.push_back(milliseconds(sum_of(*costs, &UnitCosts::kernel_ns)));
      table.rows.push_back({known.title, fmt::format("{0}x{0}", side)});
      for (size_t i = 0; i < values.size(); ++i) {
        chart.lines[i].points.emplace_back(side, values[i]);
        table.rows.back().push_back(fmt::format("{:.1f}", values[i]));
      }
    }
    made.pictures.push_back({fmt::format("{}-{}", figure, known.name), svg_of(chart)});
  }
  made.tables.push_back(std::move(table));
  return made;
}

}  // namespace

Result<Reproduction> figure_14(const ReproduceSettings& settings) {
  return by_resolution(settings, "figure-14", "delay, ms", true,
                       [](const Costs& costs, const Rings& rings) {
                         return milliseconds(pipeline::delay_ns(Pipeline::two_stage, costs, rings));
                       });
}

Result<Reproduction> figure_15(const ReproduceSettings& settings) {
  return by_resolution(settings, "figure-15", "MiB for weights", false,
                       [](const Costs&, const Rings& rings) { return mebibytes(rings.bytes()); });
}

}  // namespace weightpager::tools::demand_layering
