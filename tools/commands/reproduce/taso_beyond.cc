// What the paper's best needs for a speed, and what weightpager needs for the same.
//
// Problem. The paper adds up what all convolutions need, though they run one after the other.
//
// Idea. All selections may take 15 % longer than the fastest, as at the paper's point B. Four ways
// to go down from there:
//   - greedy, the last of its steps that is fast enough, in the paper's memory;
//   - the paper's integer program (Equation (14)), in the paper's memory: the same optimum by the
//     exact planner;
//   - that selection as weightpager runs it: packed weights, and one arena in which activations and
//     workspace share memory;
//   - the better of that and of a selection that was chosen for less weights and one workspace.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/baselines.h"
#include "runtime/plan/select.h"
#include "tools/commands/reproduce/taso_figures.h"
#include "tools/commands/reproduce/taso_networks.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::taso {
namespace {

using plan::Selection;

constexpr double slower_allowed = 1.15;

/// The least memory that greedy finds for budgets of the front's, fast enough.
uint64_t greedy_bytes(const Compared& compared, const std::vector<Selection>& front,
                      double time_ns_max) {
  uint64_t least = compared.pbqp.memory_bytes();
  for (const Selection& it : front) {
    if (it.memory_bytes() >= least) break;
    const auto found =
        plan::greedy(compared.network->whole_network, it.memory_bytes(), compared.pbqp.candidates);
    if (found && found->time_ns <= time_ns_max) least = std::min(least, found->memory_bytes());
  }
  return least;
}

struct Needs {
  uint64_t fastest_bytes = 0;
  uint64_t greedy_bytes = 0;
  uint64_t exact_bytes = 0;
  uint64_t exact_run_bytes = 0;
  uint64_t best_bytes = 0;
};

Result<Needs> needs_of(const Compared& compared) {
  const MeasuredNetwork& it = *compared.network;
  const double time_ns_max = compared.fastest.time_ns * slower_allowed;
  const auto front = plan::pareto_front(it.whole_network);
  if (!front) return tl::make_unexpected(front.error());
  const auto exact = plan::least_memory_on_front(*front, time_ns_max);
  if (!exact) return tl::make_unexpected(exact.error());
  const auto shared = plan::pareto_front(it.made.instance);
  if (!shared) return tl::make_unexpected(shared.error());
  const auto chosen = plan::least_memory_on_front(*shared, time_ns_max);
  if (!chosen) return tl::make_unexpected(chosen.error());
  const uint64_t exact_run_bytes = weightpager_bytes(it, *exact);
  return Needs{.fastest_bytes = compared.fastest.memory_bytes(),
               .greedy_bytes = greedy_bytes(compared, *front, time_ns_max),
               .exact_bytes = exact->memory_bytes(),
               .exact_run_bytes = exact_run_bytes,
               .best_bytes = std::min(exact_run_bytes, weightpager_bytes(it, *chosen))};
}

}  // namespace

Result<Reproduction> beyond(const ReproduceSettings& settings) {
  Table table = {
      .title = "MiB for 15 % more time than the fastest, this machine",
      .columns = {"network", "fastest", "greedy", "integer program", "its selection in weightpager",
                  "best in weightpager", "times less than the integer program"},
      .rows = {},
      .note =
          "Fastest, greedy and integer program: the paper's memory. In weightpager: "
          "packed weights, and one arena for activations and workspace."};
  BarChart chart = {.title = table.title,
                    .y_label = "MiB",
                    .series = {table.columns.begin() + 1, table.columns.end() - 1},
                    .groups = {}};
  for (const NamedNetwork& it : networks_of(settings)) {
    const auto compared = compare(it, settings);
    if (!compared) return tl::make_unexpected(compared.error());
    const auto needs = needs_of(*compared);
    if (!needs) return tl::make_unexpected(needs.error());
    std::vector<std::string> row = {compared->network->title};
    BarGroup group = {.name = row[0], .bars = {}};
    for (const uint64_t bytes : {needs->fastest_bytes, needs->greedy_bytes, needs->exact_bytes,
                                 needs->exact_run_bytes, needs->best_bytes}) {
      row.push_back(fmt::format("{:.3f}", mebibytes(bytes)));
      group.bars.emplace_back(BarValue{mebibytes(bytes)});
    }
    row.push_back(fmt::format("{:.2f}×", static_cast<double>(needs->exact_bytes) /
                                             static_cast<double>(needs->best_bytes)));
    table.rows.push_back(std::move(row));
    chart.groups.push_back(std::move(group));
  }
  return Reproduction{
      .tables = {std::move(table)}, .pictures = {{"beyond", svg_of(chart)}}, .lacks = {}};
}

}  // namespace weightpager::tools::taso
