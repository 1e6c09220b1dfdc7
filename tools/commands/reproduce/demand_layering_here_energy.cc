// Figure 16 on this machine: the energy of an inference, where there are counters.
//
// The paper adds up six power monitors of its board. Counters of energy need no adding up, and one
// reading before and after many inferences costs nothing.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/probes/energy_counters.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

namespace {

/// A row and a group of bars for each pipeline.
Reproduction energy_of(const infer::Comparison& comparison, const std::vector<std::string>& names,
                       const std::string& network, const std::string& machine) {
  Table table = {
      .title = fmt::format("This machine: joules for an inference of {} (Figure 16)", network),
      .columns = {"pipeline", "delay, ms"},
      .rows = {},
      .note = fmt::format("{} The counters are those of the whole machine: whatever else runs "
                          "counts, too.",
                          machine)};
  BarChart chart = {.title = table.title, .y_label = "joules", .series = names, .groups = {}};
  table.columns.insert(table.columns.end(), names.begin(), names.end());
  for (const infer::Configuration& it : comparison.configurations) {
    BarGroup group = {.name = it.name, .bars = {}};
    table.rows.push_back({it.name, fmt::format("{:.1f}", milliseconds(it.median_ns()))});
    for (const double joules : it.counted) {
      const double each = joules / static_cast<double>(it.delays_ns.size());
      table.rows.back().push_back(fmt::format("{:.2f}", each));
      group.bars.emplace_back(BarValue{.value = each});
    }
    chart.groups.push_back(std::move(group));
  }
  return {
      .tables = {std::move(table)}, .pictures = {{"figure-16-here", svg_of(chart)}}, .lacks = {}};
}

}  // namespace

Result<Reproduction> figure_16_here(const ReproduceSettings& settings) {
  EnergyCounters counters = EnergyCounters::find();
  if (counters.names().empty())
    return Reproduction{.tables = {}, .pictures = {}, .lacks = counters.lacks()};
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    infer::ComparisonOptions options;
    options.inferences = settings.is_quick ? 1 : 6;
    options.read_counters = [&] { return counters.joules(); };
    const auto comparison = compare_here(settings, here.network(), here, options);
    if (!comparison) return tl::make_unexpected(comparison.error());
    Reproduction made =
        energy_of(*comparison, counters.names(), here.name(), machine_note(settings));
    made.lacks = counters.lacks();
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
