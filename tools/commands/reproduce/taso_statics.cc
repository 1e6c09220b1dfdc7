// Figures 1 and 5 of the TASO paper: one primitive everywhere, against selections.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

using plan::Selection;

constexpr const char* fall_backs_named =
    "The paper does not say what computes the layers that a primitive cannot. Here it is direct; "
    "a 1 × 1 convolution with stride 1 is one matrix product in all but oneDNN's code.";

Table table_of(const Compared& compared) {
  Table table = {
      .title = fmt::format("{}: time and memory, this machine", compared.network->title),
      .columns = {"selection", "memory, MiB", "time, ms", "times as fast as direct",
                  "in weightpager, MiB", "convolutions by it", "by a fall-back"},
      .rows = {},
      .note = fmt::format("{} {} In weightpager: packed weights, and one arena for activations "
                          "and workspace.",
                          how_measured, fall_backs_named)};
  for (const NamedSelection& it : compared.all()) {
    const bool is_one = it.by_it > 0;
    table.rows.push_back(
        {it.title, fmt::format("{:.3f}", mebibytes(it.selection.memory_bytes())),
         fmt::format("{:.4f}", milliseconds(it.selection.time_ns)),
         fmt::format("{:.3f}", compared.direct_ns() / it.selection.time_ns),
         fmt::format("{:.3f}", mebibytes(weightpager_bytes(*compared.network, it.selection))),
         is_one ? fmt::format("{}", it.by_it) : "-",
         is_one ? fmt::format("{}", it.by_others) : "-"});
  }
  return table;
}

// ---- Figure 5 ----

/// A table with a column for each selection, and a picture of some of them, over all networks.
struct Bars {
  BarChart chart;
  Table table;
};

/// Titles of all selections, also of those that this machine lacks.
const std::vector<std::string>& titles_of_columns() {
  static const std::vector<std::string> titles = {"direct",
                                                  "im2row",
                                                  "im2col",
                                                  "winograd",
                                                  "kn2row",
                                                  "oneDNN direct",
                                                  "PBQP",
                                                  "exact, least time",
                                                  "exact, least memory"};
  return titles;
}

/// `drawn` is some of the columns' titles: as many as have room for their values.
Bars bars_of(const std::string& title, const std::string& unit, std::vector<std::string> drawn) {
  Bars bars = {.chart = {.title = fmt::format("{}, this machine", title),
                         .y_label = unit,
                         .series = std::move(drawn),
                         .groups = {}},
               .table = {.title = fmt::format("{}, this machine", title),
                         .columns = {"network"},
                         .rows = {},
                         .note = ""}};
  for (const std::string& column : titles_of_columns()) bars.table.columns.push_back(column);
  return bars;
}

template <typename ValueOf>
void add_network(Bars& bars, const Compared& compared, ValueOf value_of) {
  const auto all = compared.all();
  const auto value = [&](const std::string& title) -> std::optional<double> {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const NamedSelection& it) { return it.title == title; });
    if (found == all.end()) return std::nullopt;
    return value_of(found->selection);
  };
  std::vector<std::string> row = {compared.network->title};
  for (const std::string& title : titles_of_columns()) {
    const auto it = value(title);
    row.push_back(it ? fmt::format("{:.3f}", *it) : "-");
  }
  BarGroup group = {.name = compared.network->title, .bars = {}};
  for (const std::string& title : bars.chart.series) {
    const auto it = value(title);
    group.bars.push_back(it ? std::optional(BarValue{*it}) : std::nullopt);
  }
  bars.table.rows.push_back(std::move(row));
  bars.chart.groups.push_back(std::move(group));
}

}  // namespace

Result<Reproduction> figure_1(const ReproduceSettings& settings) {
  const auto compared = compare(googlenet, settings);
  if (!compared) return tl::make_unexpected(compared.error());
  LineChart chart = {.title = fmt::format("{}, this machine", compared->network->title),
                     .x_label = "memory, MiB",
                     .y_label = "ms",
                     .lines = {}};
  for (const NamedSelection& it : compared->all()) {
    chart.lines.push_back(
        {.name = it.title,
         .points = {{mebibytes(it.selection.memory_bytes()), milliseconds(it.selection.time_ns)}}});
  }
  Table published = {.title = "What the paper's text says of GoogLeNet on a Cortex-A15",
                     .columns = {"", "published", "this machine"},
                     .rows = {{"direct everywhere", "400 s",
                               fmt::format("{:.4f} ms", milliseconds(compared->direct_ns()))}},
                     .note = "All other values of Figure 1 are in the paper's picture alone."};
  return Reproduction{.tables = {table_of(*compared), std::move(published)},
                      .pictures = {{"figure-1", svg_of(chart)}},
                      .lacks = lacks_of(compared->one_primitive)};
}

Result<Reproduction> figure_5(const ReproduceSettings& settings) {
  const std::vector<std::string> drawn = {"direct", "im2col", "winograd", "exact, least time",
                                          "exact, least memory"};
  Bars speeds = bars_of("Times as fast as direct everywhere", "times as fast",
                        {"im2row", "im2col", "winograd", "oneDNN direct", "exact, least time"});
  Bars memory = bars_of("Memory of all convolutions", "MiB", drawn);
  Bars ours = bars_of("Memory in weightpager", "MiB", drawn);
  speeds.table.note = fmt::format("{} {}", how_measured, fall_backs_named);
  memory.table.note = "MiB. The paper's values are in its picture alone.";
  ours.table.note = "MiB: packed weights, and one arena for activations and workspace.";
  Reproduction made;
  for (const NamedNetwork& it : networks_of(settings)) {
    const auto compared = compare(it, settings);
    if (!compared) return tl::make_unexpected(compared.error());
    add_network(speeds, *compared, [&](const Selection& selection) {
      return compared->direct_ns() / selection.time_ns;
    });
    add_network(memory, *compared,
                [](const Selection& selection) { return mebibytes(selection.memory_bytes()); });
    add_network(ours, *compared, [&](const Selection& selection) {
      return mebibytes(weightpager_bytes(*compared->network, selection));
    });
    for (const std::string& lack : lacks_of(compared->one_primitive))
      made.lacks.push_back(fmt::format("{}: {}", compared->network->title, lack));
  }
  made.pictures = {{"figure-5a", svg_of(speeds.chart)},
                   {"figure-5b", svg_of(memory.chart)},
                   {"figure-5-weightpager", svg_of(ours.chart)}};
  made.tables = {std::move(speeds.table), std::move(memory.table), std::move(ours.table)};
  return made;
}

}  // namespace weightpager::tools::taso
