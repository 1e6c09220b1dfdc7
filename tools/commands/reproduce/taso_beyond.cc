// What the paper's best needs for a speed, and what weightpager needs; and how fast weightpager is
// in the same memory.
//
// Problem. The paper adds up what all convolutions need, though they run one after the other.
//
// Idea. A selection may take 15 % longer than the fastest one, as at the paper's point B. Four ways
// to go down from there:
//   - greedy, in the paper's memory;
//   - the paper's integer program (Equation (14)), in the paper's memory: the exact planner finds
//     the same optimum;
//   - that selection as weightpager runs it: packed weights, and one arena in which activations and
//     workspace share memory;
//   - the better of that and of a selection that was chosen for less weights and one workspace.
// The memory that the integer program takes is then a budget: the fastest selection that fits it in
// weightpager runs in turns with the integer program's.
//
// Cost: some four seconds for each turn.
#include <fmt/format.h>

#include <algorithm>
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

using plan::Selection;

constexpr double slower_allowed = 1.15;
constexpr size_t selections_tried = 60;

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

struct Found {
  uint64_t greedy_bytes = 0;
  /// The integer program's selection.
  Selection exact;
  uint64_t exact_run_bytes = 0;
  uint64_t best_bytes = 0;
  /// The fastest that takes no more in weightpager than `exact` in the paper's memory.
  Selection in_same_memory;
};

/// Of the front's, or `otherwise`, which fits: the integer program's.
Selection fastest_in_weightpager(const MeasuredNetwork& network,
                                 const std::vector<Selection>& front, const Selection& otherwise,
                                 uint64_t budget_bytes) {
  const auto some = spread_over(front, selections_tried);
  const auto fits = std::find_if(some.rbegin(), some.rend(), [&](const Selection* it) {
    return weightpager_bytes(network, *it) <= budget_bytes;
  });
  const bool is_faster = fits != some.rend() && (*fits)->time_ns < otherwise.time_ns;
  return is_faster ? **fits : otherwise;
}

Result<Found> find(const Compared& compared) {
  const MeasuredNetwork& it = *compared.network;
  const double time_ns_max = compared.fastest.time_ns * slower_allowed;
  const auto front = plan::pareto_front(it.whole_network);
  if (!front) return tl::make_unexpected(front.error());
  auto exact = plan::least_memory_on_front(*front, time_ns_max);
  if (!exact) return forward_error(std::move(exact));
  const auto shared = plan::pareto_front(it.made.instance);
  if (!shared) return tl::make_unexpected(shared.error());
  const auto chosen = plan::least_memory_on_front(*shared, time_ns_max);
  if (!chosen) return tl::make_unexpected(chosen.error());
  Found found = {.greedy_bytes = greedy_bytes(compared, *front, time_ns_max),
                 .exact = *std::move(exact)};
  found.exact_run_bytes = weightpager_bytes(it, found.exact);
  found.best_bytes = std::min(found.exact_run_bytes, weightpager_bytes(it, *chosen));
  found.in_same_memory =
      fastest_in_weightpager(it, *shared, found.exact, found.exact.memory_bytes());
  return found;
}

// ---- Memory for the same speed ----

Table memory_table() {
  return {
      .title = "MiB for 15 % more time than the fastest, this machine",
      .columns = {"network", "fastest", "greedy", "integer program", "its selection in weightpager",
                  "best in weightpager", "times less than the integer program"},
      .rows = {},
      .note =
          "Fastest, greedy and integer program: the paper's memory. In weightpager: packed "
          "weights, and one arena for activations and workspace."};
}

void add_memory(const Compared& compared, const Found& found, Table& table, BarChart& chart) {
  std::vector<std::string> row = {compared.network->title};
  BarGroup group = {.name = row[0], .bars = {}};
  for (const uint64_t bytes :
       {compared.fastest.memory_bytes(), found.greedy_bytes, found.exact.memory_bytes(),
        found.exact_run_bytes, found.best_bytes}) {
    row.push_back(fmt::format("{:.3f}", mebibytes(bytes)));
    group.bars.emplace_back(BarValue{mebibytes(bytes)});
  }
  row.push_back(fmt::format("{:.2f}×", static_cast<double>(found.exact.memory_bytes()) /
                                           static_cast<double>(found.best_bytes)));
  table.rows.push_back(std::move(row));
  chart.groups.push_back(std::move(group));
}

// ---- Speed in the same memory ----

Table speed_table() {
  return {.title = "In the integer program's memory, this machine",
          .columns = {"network", "budget, MiB", "integer program, ms", "weightpager, ms",
                      "planned: faster", "ran: faster", "least to most"},
          .rows = {},
          .note =
              "The fastest selection that takes no more in weightpager than the integer "
              "program's takes in the paper's memory. Ran: both in turns, the median of some "
              "measurements of two seconds or more."};
}

/// How many times as fast, in order.
Result<std::vector<double>> ran_faster(const MeasuredNetwork& network, const Found& found,
                                       size_t repeats) {
  auto ours = run_of(network, found.in_same_memory);
  if (!ours) return forward_error(std::move(ours));
  auto theirs = run_of(network, found.exact);
  if (!theirs) return forward_error(std::move(theirs));
  std::vector<double> faster;
  for (size_t i = 0; i < repeats; ++i) {
    const auto in_turns = run_in_turns(*ours, *theirs);
    if (!in_turns) return tl::make_unexpected(in_turns.error());
    faster.push_back(1 / in_turns->by_reference);
  }
  std::sort(faster.begin(), faster.end());
  return faster;
}

Status add_speed(const Compared& compared, const Found& found, size_t repeats, Table& table) {
  const double exact_ns = found.exact.time_ns;
  const double ours_ns = found.in_same_memory.time_ns;
  const auto faster = ran_faster(*compared.network, found, repeats);
  if (!faster) return tl::make_unexpected(faster.error());
  table.rows.push_back(
      {compared.network->title, fmt::format("{:.3f}", mebibytes(found.exact.memory_bytes())),
       fmt::format("{:.4f}", milliseconds(exact_ns)), fmt::format("{:.4f}", milliseconds(ours_ns)),
       fmt::format("{:.3f}×", exact_ns / ours_ns),
       fmt::format("{:.3f}×", (*faster)[faster->size() / 2]),
       fmt::format("{:.3f} to {:.3f}×", faster->front(), faster->back())});
  return {};
}

}  // namespace

Result<Reproduction> beyond(const ReproduceSettings& settings) {
  Table memory = memory_table();
  Table speed = speed_table();
  BarChart chart = {.title = memory.title,
                    .y_label = "MiB",
                    .series = {memory.columns.begin() + 1, memory.columns.end() - 1},
                    .groups = {}};
  const size_t repeats = settings.is_quick ? 1 : 5;
  for (const NamedNetwork& it : networks_of(settings)) {
    const auto compared = compare(it, settings);
    if (!compared) return tl::make_unexpected(compared.error());
    const auto found = find(*compared);
    if (!found) return tl::make_unexpected(found.error());
    add_memory(*compared, *found, memory, chart);
    if (auto added = add_speed(*compared, *found, repeats, speed); !added)
      return forward_error(std::move(added));
  }
  return Reproduction{.tables = {std::move(memory), std::move(speed)},
                      .pictures = {{"beyond", svg_of(chart)}},
                      .lacks = {}};
}

}  // namespace weightpager::tools::taso
