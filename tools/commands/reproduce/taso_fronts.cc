// Figures 6 to 10 of the TASO paper: fronts of time against memory, and greedy beside them.
//
// The paper varies a budget and solves an integer program for each. Here a front is found as a
// whole, and is exact (runtime/plan/series_parallel.h). Each network has two fronts: (a) the memory
// of all convolutions counts, Equation (13), and (b) that of the largest one, Equation (15).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/baselines.h"
#include "runtime/plan/select.h"
#include "tools/commands/plan/selection_front.h"
#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

using plan::Instance;
using plan::Selection;

constexpr size_t rows_shown = 12;
constexpr size_t budgets_drawn = 60;

/// One question, with what the planners find.
struct Planned {
  const Instance* instance = nullptr;
  std::vector<Selection> front;
  Selection pbqp;
};

Result<Planned> plan_of(const Instance& instance) {
  auto front = plan::pareto_front(instance);
  if (!front) return forward_error(std::move(front));
  auto pbqp = plan::fastest_ignoring_memory(instance);
  if (!pbqp) return forward_error(std::move(pbqp));
  return Planned{&instance, *std::move(front), *std::move(pbqp)};
}

Result<Selection> greedy_within(const Planned& planned, uint64_t memory_bytes_max) {
  return plan::greedy(*planned.instance, memory_bytes_max, planned.pbqp.candidates);
}

/// The fastest selection of an exact front within a budget that is not below its least.
const Selection& best_within(const std::vector<Selection>& front, uint64_t memory_bytes_max) {
  const auto above = std::partition_point(front.begin(), front.end(), [&](const Selection& it) {
    return it.memory_bytes() <= memory_bytes_max;
  });
  return *std::prev(above);
}

// ---- Figures 6 to 9 ----

/// What greedy finds for the budgets of a front's points.
ChartLine greedy_line(const Planned& planned) {
  std::vector<std::pair<double, double>> points;
  for (const Selection* const it : spread_over(planned.front, budgets_drawn)) {
    const auto found = greedy_within(planned, it->memory_bytes());
    if (found) points.push_back(point_of(*found));
  }
  return line_of_points("greedy", std::move(points));
}

LineChart front_chart(const std::string& title, const std::string& x_label, const Planned& planned,
                      const Planned& paper_kinds,
                      const std::vector<NamedSelection>& one_primitive) {
  LineChart chart = {.title = title,
                     .x_label = x_label,
                     .y_label = "ms",
                     .lines = {line_of("exact", planned.front),
                               greedy_line(planned),
                               line_of("paper's kinds", paper_kinds.front),
                               {.name = "PBQP", .points = {point_of(planned.pbqp)}}}};
  for (const NamedSelection& it : one_primitive)
    chart.lines.push_back({.name = it.title, .points = {point_of(it.selection)}});
  return chart;
}

Table front_table(const std::string& title, const Planned& planned) {
  Table table = {.title = title,
                 .columns = {"memory, MiB", "exact, ms", "greedy, ms", "exact is faster"},
                 .rows = {},
                 .note = fmt::format("{} of {} points; the last is PBQP's. {}",
                                     std::min(rows_shown, planned.front.size()),
                                     planned.front.size(), how_measured)};
  for (const Selection* const it : spread_over(planned.front, rows_shown)) {
    const auto greedy = greedy_within(planned, it->memory_bytes());
    table.rows.push_back({fmt::format("{:.3f}", mebibytes(it->memory_bytes())),
                          fmt::format("{:.4f}", milliseconds(it->time_ns)),
                          greedy ? fmt::format("{:.4f}", milliseconds(greedy->time_ns)) : "none",
                          greedy ? fmt::format("{:.3f}×", greedy->time_ns / it->time_ns) : "-"});
  }
  return table;
}

/// How much less memory than the fastest the smallest selection takes that is at most this much
/// slower.
double memory_saved(const std::vector<Selection>& front, double slower) {
  const auto enough = std::find_if(front.begin(), front.end(), [&](const Selection& it) {
    return it.time_ns <= front.back().time_ns * slower;
  });
  return static_cast<double>(front.back().memory_bytes()) /
         static_cast<double>(enough->memory_bytes());
}

/// The most that time falls between two points of which one takes at most this much more memory.
double most_gained(const std::vector<Selection>& front, double more) {
  double most = 1;
  for (const Selection& it : front) {
    const auto budget = static_cast<double>(it.memory_bytes()) * more;
    most = std::max(most, it.time_ns / best_within(front, static_cast<uint64_t>(budget)).time_ns);
  }
  return most;
}

/// Sections 5.2 and 5.3.1 tell of these points of GoogLeNet's fronts.
Table told_points(const MeasuredNetwork& measured, const Planned& whole, const Planned& layer) {
  const auto times = [](double value) { return fmt::format("{:.2f}×", value); };
  return {.title = fmt::format("What the paper's text says of GoogLeNet's fronts, and {} here",
                               measured.title),
          .columns = {"", "published", "this machine"},
          .rows = {{"whole network: less memory for 15 % more time", "2.2×",
                    times(memory_saved(whole.front, 1.15))},
                   {"layer by layer: less memory for 2 % more time", "1.5×",
                    times(memory_saved(layer.front, 1.02))},
                   {"layer by layer: faster with 5 % more memory, at most", "1.4×",
                    times(most_gained(layer.front, 1.05))}},
          .note = "Points A to D of the paper's Figure 6, on a Cortex-A15."};
}

Result<Reproduction> fronts(const std::string& name, const NamedNetwork& network,
                            const ReproduceSettings& settings) {
  const auto it = measured(network, settings);
  if (!it) return tl::make_unexpected(it.error());
  Reproduction made;
  std::vector<Planned> plans;
  const struct {
    const Instance& instance;
    const char* letter;
    const char* words;
    const char* x_label;
  } strategies[] = {
      {(*it)->whole_network, "a", "whole network", "memory of all convolutions, MiB"},
      {(*it)->layer_by_layer, "b", "layer by layer", "memory of the largest convolution, MiB"}};
  for (const auto& strategy : strategies) {
    auto planned = plan_of(strategy.instance);
    if (!planned) return forward_error(std::move(planned));
    const Instance fewer = with_paper_kinds(**it, strategy.instance);
    const auto paper_kinds = plan_of(fewer);
    if (!paper_kinds) return tl::make_unexpected(paper_kinds.error());
    const auto one_primitive = one_primitive_each(**it, strategy.instance);
    if (!one_primitive) return tl::make_unexpected(one_primitive.error());
    const std::string title = fmt::format("{}, {}, this machine", (*it)->title, strategy.words);
    made.pictures.push_back(
        {name + strategy.letter,
         svg_of(front_chart(title, strategy.x_label, *planned, *paper_kinds, *one_primitive))});
    made.tables.push_back(front_table(title, *planned));
    plans.push_back(*std::move(planned));
  }
  if (&network == &googlenet) made.tables.push_back(told_points(**it, plans[0], plans[1]));
  return made;
}

// ---- Figure 10 ----

constexpr size_t budgets_shown = 16;

/// Budgets fall evenly from what the fastest selection takes to the least.
Result<Table> against_greedy(const std::string& title, const Instance& instance, ChartLine& line) {
  const auto planned = plan_of(instance);
  if (!planned) return tl::make_unexpected(planned.error());
  Table table = {.title = title,
                 .columns = {"budget, MiB", "exact, ms", "greedy, ms", "exact is faster"},
                 .rows = {},
                 .note = "None: greedy cannot go down to this budget."};
  const uint64_t least = planned->front.front().memory_bytes();
  const uint64_t range = planned->pbqp.memory_bytes() - least;
  for (size_t i = 0; i < budgets_shown; ++i) {
    const uint64_t budget = least + range * (budgets_shown - 1 - i) / (budgets_shown - 1);
    const Selection& best = best_within(planned->front, budget);
    const auto greedy = greedy_within(*planned, budget);
    std::vector<std::string> row = {fmt::format("{:.3f}", mebibytes(budget)),
                                    fmt::format("{:.4f}", milliseconds(best.time_ns)), "none", "-"};
    if (greedy) {
      const double faster = greedy->time_ns / best.time_ns;
      row[2] = fmt::format("{:.4f}", milliseconds(greedy->time_ns));
      row[3] = fmt::format("{:.3f}×", faster);
      line.points.emplace_back(mebibytes(budget), faster);
    }
    table.rows.push_back(std::move(row));
  }
  std::reverse(line.points.begin(), line.points.end());
  return table;
}

}  // namespace

Result<Reproduction> figure_6(const ReproduceSettings& settings) {
  return fronts("figure-6", googlenet, settings);
}
Result<Reproduction> figure_7(const ReproduceSettings& settings) {
  return fronts("figure-7", alexnet, settings);
}
Result<Reproduction> figure_8(const ReproduceSettings& settings) {
  return fronts("figure-8", squeezenet, settings);
}
Result<Reproduction> figure_9(const ReproduceSettings& settings) {
  return fronts("figure-9", vgg, settings);
}
Result<Reproduction> resnet_fronts(const ReproduceSettings& settings) {
  return fronts("resnet-", resnet, settings);
}

Result<Reproduction> figure_10(const ReproduceSettings& settings) {
  const auto it = measured(googlenet, settings);
  if (!it) return tl::make_unexpected(it.error());
  Reproduction made;
  LineChart chart = {
      .title = fmt::format("{}, this machine", (*it)->title),
      .x_label = "budget, MiB",
      .y_label = "exact is faster than greedy, times",
      .lines = {{.name = "all primitives", .points = {}}, {.name = "paper's kinds", .points = {}}}};
  const Instance fewer = with_paper_kinds(**it, (*it)->whole_network);
  const Instance* const instances[] = {&(*it)->whole_network, &fewer};
  for (size_t i = 0; i < std::size(instances); ++i) {
    auto table =
        against_greedy(fmt::format("{}, {}, this machine", (*it)->title, chart.lines[i].name),
                       *instances[i], chart.lines[i]);
    if (!table) return forward_error(std::move(table));
    made.tables.push_back(*std::move(table));
  }
  made.tables.front().note +=
      " The paper has up to 8× on a Cortex-A15; its other values are in its picture alone.";
  made.pictures.push_back({"figure-10", svg_of(chart)});
  return made;
}

}  // namespace weightpager::tools::taso
