// Table II and Figure 12 on this machine: memory and delay of each pipeline, measured by
// runtime/infer/pipeline_comparison.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pager/base/units.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using infer::Comparison;
using infer::Configuration;

namespace {

/// The network's row of Table II; nullptr if the paper has none.
const PublishedPipelines* published_of(const std::string& name) {
  const auto* const found =
      std::find_if(published.begin(), published.end(),
                   [&](const PublishedPipelines& it) { return it.name == name; });
  return found == published.end() ? nullptr : &*found;
}

/// "-92.7 / +52.1", or "-" for what the paper does not have.
std::string published_cell(const std::string& network, const std::string& pipeline) {
  const PublishedPipelines* const known = published_of(network);
  for (size_t i = 0; known != nullptr && i < compared.size(); ++i) {
    if (compared[i].name == pipeline)
      return fmt::format("{:.1f} / {:+.1f}", known->changes[i].memory, known->changes[i].delay);
  }
  return "-";
}

double change_percent(double value, double reference) { return 100 * (value / reference - 1); }

Table measured_table(const Comparison& comparison, const NetworkHere& here,
                     const std::string& machine) {
  Table table = {
      .title =
          fmt::format("This machine: memory and delay of {} against Pre (Table II)", here.name()),
      .columns = {"pipeline", "published: memory / delay, %", "window, MiB",
                  "memory against weights twice, %", "memory against weights once, %", "delay, ms",
                  "least to most, ms", "delay, %", "by equation, ms"},
      .rows = {},
      .note = fmt::format(
          "{} Medians of {} inferences in turns. Pre has the weights twice in the paper "
          "(Equation 2) and once here. Of rows that the paper does not have, tiles cut layers, "
          "and overlay also reads into idle memory of activations.",
          machine, comparison.configurations.front().delays_ns.size())};
  const Configuration& pre = comparison.configurations.front();
  const auto once = static_cast<double>(here.network().folded_bytes());
  for (const Configuration& it : comparison.configurations) {
    const auto bytes = static_cast<double>(it.window_bytes);
    table.rows.push_back(
        {it.name, published_cell(here.name(), it.name),
         fmt::format("{:.2f}", mebibytes(it.window_bytes)),
         fmt::format("{:+.1f}", change_percent(bytes, 2 * once)),
         fmt::format("{:+.1f}", change_percent(bytes, once)),
         fmt::format("{:.1f}", milliseconds(it.median_ns())),
         fmt::format("{:.1f} to {:.1f}", milliseconds(it.delays_ns.front()),
                     milliseconds(it.delays_ns.back())),
         fmt::format("{:+.1f}", change_percent(static_cast<double>(it.median_ns()),
                                               static_cast<double>(pre.median_ns()))),
         it.predicted_ns == 0 ? "-" : fmt::format("{:.1f}", milliseconds(it.predicted_ns))});
  }
  return table;
}

std::string measured_picture(const Comparison& comparison, const std::string& name) {
  LineChart chart = {.title = fmt::format("This machine: {}, measured (Figure 12)", name),
                     .x_label = "MiB for weights",
                     .y_label = "delay, ms",
                     .lines = {}};
  for (const Configuration& it : comparison.configurations)
    chart.lines.push_back({it.name, {{mebibytes(it.window_bytes), milliseconds(it.median_ns())}}});
  return svg_of(chart);
}

}  // namespace

Result<Reproduction> table_2_here(const ReproduceSettings& settings) {
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    infer::ComparisonOptions options;
    options.inferences = settings.is_quick ? 1 : 6;
    // Less than the smallest window of the paper's pipelines.
    options.tiled_windows_bytes = {
        round_up(here.network().largest_folded_bytes() / 2, os_page_bytes)};
    const auto comparison = compare_here(settings, here.network(), here, options);
    if (!comparison) return tl::make_unexpected(comparison.error());
    Reproduction made;
    made.tables.push_back(measured_table(*comparison, here, machine_note(settings)));
    made.pictures.push_back({"figure-12-here", measured_picture(*comparison, here.name())});
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
