// Figures 10 and 11: when each pipeline reads, copies and computes a few layers.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "pager/base/units.h"
#include "runtime/pipeline/timeline.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;

namespace {

/// Five layers, of which the fourth takes long to read, as in the paper's figures. (Their values
/// are in the paper's pictures alone.)
const std::vector<GivenLayer>& example_layers() {
  static const std::vector<GivenLayer> layers = {
      {1, 0.5, 2, 1}, {2, 1, 3, 2}, {1, 0.5, 2, 1}, {4, 1.5, 3, 4}, {1, 0.5, 2, 1}};
  return layers;
}

Costs given_costs(const ReproduceSettings& settings) {
  Costs costs;
  const auto ns = [](double ms) { return static_cast<uint64_t>(ms * 1e6); };
  for (const GivenLayer& it : settings.layers.empty() ? example_layers() : settings.layers) {
    costs.push_back({.size_bytes = static_cast<uint64_t>(it.size_mib * static_cast<double>(MiB)),
                     .read_ns = ns(it.read_ms),
                     .copy_ns = ns(it.copy_ms),
                     .kernel_ns = ns(it.kernel_ms)});
  }
  return costs;
}

/// One colour for each layer, again from the first one on when all are used.
constexpr std::array<const char*, 5> layer_colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00"};

std::string timeline_svg(const std::string& title, Pipeline pipeline, const Costs& costs,
                         const Rings& rings) {
  const pipeline::Timeline times = pipeline::timeline(pipeline, costs, rings);
  TimeChart chart = {.title = fmt::format("{}: {:.2f} ms", title, milliseconds(times.delay_ns())),
                     .x_label = "ms",
                     .colours = {},
                     .rows = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  for (size_t i = 0; i < costs.size(); ++i)
    chart.colours.emplace_back(fmt::format("layer {}", i + 1),
                               layer_colours[i % layer_colours.size()]);
  constexpr std::array stages = {&pipeline::UnitTimes::read, &pipeline::UnitTimes::copy,
                                 &pipeline::UnitTimes::kernel};
  for (size_t i = 0; i < times.units.size(); ++i) {
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const pipeline::TimeSpan& span = times.units[i].*stages[stage];
      if (span.finish_ns == span.start_ns) continue;
      chart.rows[stage].bars.push_back(
          {milliseconds(span.start_ns), milliseconds(span.finish_ns), i});
    }
  }
  return svg_of(chart);
}

/// A row of a table of timelines: what the pipeline's equation gives.
std::vector<std::string> timeline_row(const std::string& name, Pipeline pipeline,
                                      const Costs& costs, const Rings& rings) {
  const uint64_t delay = pipeline::delay_ns(pipeline, costs, rings);
  const uint64_t kernels = sum_of(costs, &UnitCosts::kernel_ns);
  return {name, fmt::format("{:.1f}", mebibytes(rings.bytes())),
          fmt::format("{:.2f}", milliseconds(delay)),
          fmt::format("{:.2f}", milliseconds(delay - kernels))};
}

Table timeline_table(const Costs& costs) {
  std::string layers;
  for (const UnitCosts& it : costs)
    layers += fmt::format("{}({:.2f}, {:.2f}, {:.2f}; {:.1f})", layers.empty() ? "" : ", ",
                          milliseconds(it.read_ns), milliseconds(it.copy_ns),
                          milliseconds(it.kernel_ns), mebibytes(it.size_bytes));
  return {.title = "Delays",
          .columns = {"pipeline", "window, MiB", "delay, ms", "beyond all kernels, ms"},
          .rows = {},
          .note = "Layers (read, copy, kernel in ms; MiB): " + layers + "."};
}

}  // namespace

Result<Reproduction> figure_10(const ReproduceSettings& settings) {
  const Costs costs = given_costs(settings);
  const auto units = pipeline::work_units(costs);
  Reproduction made;
  Table table = timeline_table(costs);
  // As in the figure, no buffer is too small for what comes next.
  const uint64_t all_bytes = sum_of(costs, &UnitCosts::size_bytes);
  constexpr std::array<std::pair<const char*, Pipeline>, 3> shown = {
      {{"sequential (a)", Pipeline::sequential},
       {"synchronous (b)", Pipeline::synchronous},
       {"asynchronous (c)", Pipeline::asynchronous}}};
  for (const auto& [name, which] : shown) {
    const Rings rings = which == Pipeline::asynchronous ? Rings{all_bytes, all_bytes}
                                                        : pipeline::smallest_rings(which, units);
    made.pictures.push_back({fmt::format("figure-10-{}", pipeline::name(which)),
                             timeline_svg(name, which, costs, rings)});
    table.rows.push_back(timeline_row(name, which, costs, rings));
  }
  made.tables.push_back(std::move(table));
  return made;
}

Result<Reproduction> figure_11(const ReproduceSettings& settings) {
  const Costs costs = given_costs(settings);
  const auto units = pipeline::work_units(costs);
  Reproduction made;
  Table table = timeline_table(costs);
  constexpr std::array<std::pair<const char*, Pipeline>, 2> shown = {
      {{"three stages (a)", Pipeline::asynchronous}, {"two stages (b)", Pipeline::two_stage}}};
  for (const auto& [name, which] : shown) {
    const Rings rings = pipeline::smallest_rings(which, units);
    made.pictures.push_back({fmt::format("figure-11-{}", pipeline::name(which)),
                             timeline_svg(name, which, costs, rings)});
    table.rows.push_back(timeline_row(name, which, costs, rings));
  }
  made.tables.push_back(std::move(table));
  return made;
}

}  // namespace weightpager::tools::demand_layering
