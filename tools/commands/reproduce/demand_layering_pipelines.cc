// Table II, Figures 12 and 13: memory and delay of each pipeline.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "pager/base/units.h"
#include "runtime/pipeline/search.h"
#include "runtime/pipeline/timeline.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/commands/reproduce/demand_layering_sweep.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using pipeline::Pipeline;
using pipeline::Rings;

namespace {

/// Memory and delay against Pre, which has all weights twice (Equation (2)).
PipelineChange change(const CostedNetwork& it, const ComparedPipeline& how) {
  const Rings rings = rings_of(how, it.costs);
  const auto all_twice = 2 * static_cast<double>(it.network.folded_bytes());
  const double delay_ms = milliseconds(pipeline::delay_ns(how.pipeline, it.costs, rings));
  return {.memory = 100 * (static_cast<double>(rings.bytes()) / all_twice - 1),
          .delay = 100 * (delay_ms / it.kernels_ms - 1)};
}

}  // namespace

Result<Reproduction> table_2(const ReproduceSettings&) {
  Table table = {.title = "Memory and delay against Pre, published / ours, in percent",
                 .columns = {"network"},
                 .rows = {},
                 .note = fmt::format("{} Sync needs less memory than in the paper: its rings hold "
                                     "two neighbouring layers, not twice the largest.",
                                     by_equation)};
  for (const ComparedPipeline& how : compared) {
    table.columns.push_back(fmt::format("{}: memory", how.name));
    table.columns.push_back(fmt::format("{}: delay", how.name));
  }
  for (const PublishedPipelines& known : published) {
    const auto it = costed_network(known);
    if (!it) return tl::make_unexpected(it.error());
    std::vector<std::string> row = {known.title};
    for (size_t i = 0; i < compared.size(); ++i) {
      const PipelineChange ours = change(*it, compared[i]);
      row.push_back(fmt::format("{:.1f} / {:.1f}", known.changes[i].memory, ours.memory));
      row.push_back(fmt::format("{:+.1f} / {:+.1f}", known.changes[i].delay, ours.delay));
    }
    table.rows.push_back(std::move(row));
  }
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

/// A line of one point: pipelines are compared by where they lie.
Result<Reproduction> figure_12(const ReproduceSettings&) {
  Reproduction made;
  for (const PublishedPipelines& known : published) {
    const auto it = costed_network(known);
    if (!it) return tl::make_unexpected(it.error());
    const double all_mib = 2 * mebibytes(it->network.folded_bytes());
    LineChart chart = {.title = fmt::format("{}: memory and delay", known.title),
                       .x_label = "MiB for weights",
                       .y_label = "delay, ms",
                       .lines = {{"Pre", {{all_mib, it->kernels_ms}}}}};
    for (const ComparedPipeline& how : compared) {
      const PipelineChange ours = change(*it, how);
      chart.lines.push_back(
          {how.name,
           {{all_mib * (1 + ours.memory / 100), it->kernels_ms * (1 + ours.delay / 100)}}});
    }
    made.pictures.push_back({fmt::format("figure-12-{}", known.name), svg_of(chart)});
  }
  return made;
}

Result<Reproduction> figure_13(const ReproduceSettings& settings) {
  const uint64_t step_bytes = settings.is_quick ? 4 * MiB : 1 * MiB;
  Reproduction made;
  Table table = {.title = "The smallest window with the least delay, by both searches, MiB",
                 .columns = {"network", "pipeline", "published", "least delay, ms",
                             "the paper's sweep", "ours, the same delay", "ours, 0.4 % more"},
                 .rows = {},
                 .note = fmt::format("The sweep takes steps of {} MiB in each buffer. {}",
                                     step_bytes / MiB, by_equation)};
  for (const PublishedPipelines& known : published) {
    const auto it = costed_network(known);
    if (!it) return tl::make_unexpected(it.error());
    LineChart chart = {.title = fmt::format("{}: delay by window", known.title),
                       .x_label = "MiB for weights",
                       .y_label = "delay, ms",
                       .lines = {}};
    // Nothing more happens in larger buffers.
    const uint64_t end_bytes = it->network.folded_bytes() / 2;
    for (const size_t which : {size_t{3}, size_t{5}}) {
      const ComparedPipeline& how = compared[which];
      const Sweep swept = sweep(how.name, how.pipeline, it->costs, step_bytes, end_bytes);
      const auto same =
          pipeline::smallest_rings_for_delay(how.pipeline, it->costs, swept.least_delay_ns);
      const double published_mib = 2 * known.model_mib * (1 + known.changes[which].memory / 100);
      table.rows.push_back({known.title, how.name, fmt::format("{:.1f}", published_mib),
                            fmt::format("{:.1f}", milliseconds(swept.least_delay_ns)),
                            fmt::format("{:.1f}", mebibytes(swept.window_bytes)),
                            same ? fmt::format("{:.1f}", mebibytes(same->bytes())) : "-",
                            fmt::format("{:.1f}", mebibytes(rings_of(how, it->costs).bytes()))});
      chart.lines.push_back(swept.line);
    }
    const auto& points = chart.lines.front().points;
    chart.lines.push_back(
        {"Pre",
         {{points.front().first, it->kernels_ms}, {points.back().first, it->kernels_ms}},
         true});
    made.pictures.push_back({fmt::format("figure-13-{}", known.name), svg_of(chart)});
  }
  made.tables.push_back(std::move(table));
  return made;
}

}  // namespace weightpager::tools::demand_layering
