// Networks that are run by the selections that Figure 5 compares, to see whether sums of times
// hold.
//
// A shared machine's pace changes. So each selection runs in turns with the fastest one, and what
// counts is how much longer it takes (tools/commands/plan/selection_run.h).
//
// Cost: two to four seconds for each selection, and two copies of a network's weights.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tools/commands/plan/selection_run.h"
#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

struct Ran {
  std::string title;
  double planned_ns = 0;
  double took_ns = 0;
  /// Against the fastest selection, which ran in turns with this one.
  double by_fastest = 1;
};

Result<std::vector<Ran>> run_all(const Compared& compared) {
  auto fastest = run_of(*compared.network, compared.fastest);
  if (!fastest) return forward_error(std::move(fastest));
  std::vector<Ran> all;
  for (const NamedSelection& it : compared.all()) {
    const bool is_the_fastest_again = it.title == "PBQP";
    if (is_the_fastest_again || it.title == "kn2row") continue;
    auto run = run_of(*compared.network, it.selection);
    if (!run) return forward_error(std::move(run));
    const auto in_turns = run_in_turns(*run, *fastest);
    if (!in_turns) return tl::make_unexpected(in_turns.error());
    all.push_back({it.title, it.selection.time_ns, in_turns->took_ns, in_turns->by_reference});
  }
  return all;
}

void add_rows(Table& table, const std::string& network, const std::vector<Ran>& all) {
  const Ran& direct = all.front();
  for (const Ran& it : all) {
    table.rows.push_back({network, it.title, fmt::format("{:.3f}", milliseconds(it.planned_ns)),
                          fmt::format("{:.3f}", milliseconds(it.took_ns)),
                          fmt::format("{:.3f}", direct.planned_ns / it.planned_ns),
                          fmt::format("{:.3f}", direct.by_fastest / it.by_fastest)});
  }
}

BarGroup group_of(const std::string& network, const std::vector<Ran>& all,
                  const std::vector<std::string>& series) {
  BarGroup group = {.name = network, .bars = {}};
  for (const std::string& title : series) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Ran& it) { return it.title == title; });
    if (found == all.end()) {
      group.bars.emplace_back(std::nullopt);
    } else {
      group.bars.emplace_back(BarValue{all.front().by_fastest / found->by_fastest});
    }
  }
  return group;
}

}  // namespace

Result<Reproduction> runs(const ReproduceSettings& settings) {
  Table table = {
      .title = "Runs of whole networks, this machine",
      .columns = {"network", "selection", "planned, ms", "took, ms",
                  "planned: times as fast as direct", "ran: times as fast as direct"},
      .rows = {},
      .note =
          "Convolutions and changes of layout, one thread, median of passes. Speeds are told "
          "by the fastest selection, which runs in turns with each; took is the clock's."};
  BarChart chart = {
      .title = "Times as fast as direct everywhere, in runs, this machine",
      .y_label = "times as fast",
      .series = {"im2row", "im2col", "winograd", "oneDNN direct", "exact, least time"},
      .groups = {}};
  // A pass of SqueezeNet's takes least. It is the last of the quick ones.
  std::vector<NamedNetwork> networks_shown = networks_of(settings);
  if (settings.is_quick) networks_shown.erase(networks_shown.begin(), networks_shown.end() - 1);
  for (const NamedNetwork& it : networks_shown) {
    const auto compared = compare(it, settings);
    if (!compared) return tl::make_unexpected(compared.error());
    const auto all = run_all(*compared);
    if (!all) return tl::make_unexpected(all.error());
    add_rows(table, compared->network->title, *all);
    chart.groups.push_back(group_of(compared->network->title, *all, chart.series));
  }
  return Reproduction{
      .tables = {std::move(table)}, .pictures = {{"runs", svg_of(chart)}}, .lacks = {}};
}

}  // namespace weightpager::tools::taso
