// Figures 17 to 19: another board, budgets that change, and the memory beside the blocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "runtime/budget/lookup_table.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/commands/reproduce/swapnet_timeline.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::swapnet {
namespace {

using budget::BlockEnds;
using budget::BlockPlan;
using budget::LookupTable;

/// The paper's plans of one network for many budgets: each table is made once.
class TablePlans {
 public:
  explicit TablePlans(const PaperNetwork& network) : network_(network) {}

  /// Nothing where the table of as many blocks as the rule says is too long, or has no row.
  std::optional<BlockPlan> plan(uint64_t budget_bytes) {
    const auto blocks =
        static_cast<uint32_t>(budget::suggested_blocks(network_.size_bytes(), budget_bytes));
    if (!tables_.contains(blocks))
      tables_.emplace(blocks, LookupTable::make(network_.costs, blocks));
    const auto& table = tables_.at(blocks);
    return table ? table->choose(budget_bytes) : std::nullopt;
  }

 private:
  const PaperNetwork& network_;
  std::map<uint32_t, Result<LookupTable>> tables_;  // by number of blocks
};

}  // namespace

Result<Reproduction> figure_17(const ReproduceSettings&) {
  const auto resnet = paper_network(PaperModel::resnet101);
  if (!resnet) return tl::make_unexpected(resnet.error());
  const auto plan =
      budget::plan_by_table(resnet->costs, static_cast<uint64_t>(resnet_three_blocks_mb) * mib, 3);
  if (!plan) return tl::make_unexpected(plan.error());
  const Increase increase = increase_of(*resnet, plan->ends);
  const Table table = {
      .title = "ResNet-101 in three blocks on two boards",
      .columns = {"board", "MB, published / ours", "ms beyond memory, published",
                  "ours, by Eq. (4) / with the first read"},
      .rows = {{"Jetson NX", fmt::format("111 / {:.1f}", mebibytes(plan->peak_bytes)), "15",
                fmt::format("{:.1f} / {:.1f}", milliseconds(increase.by_equation_ns),
                            milliseconds(increase.with_first_read_ns))},
               {"Jetson Nano", fmt::format("111 / {:.1f}", mebibytes(plan->peak_bytes)), "19",
                "-"}},
      .note = std::string("The cuts and their memory do not depend on the board's speed here. ") +
              model_note};
  return Reproduction{.tables = {table},
                      .pictures = {},
                      .lacks = {"The Nano's time in memory is in the paper's picture alone."}};
}

// ---- Figure 18 ----

namespace {

/// The paper's three states: its text has a budget for the first one only.
struct PublishedState {
  double budget_mb;
  const char* budget;
  const char* blocks;
  const char* latency;
  const char* adapted;
};

constexpr std::array<PublishedState, 3> states = {{{136, "136", "3", "-", "-"},
                                                   {119, "less", "3", "499", "74"},
                                                   {102, "less", "4", "511", "64"}}};

LineChart delays_by_budget(const PaperNetwork& resnet, TablePlans& tables) {
  LineChart chart = {.title = "ResNet-101 by budget, with the first read",
                     .x_label = "MiB",
                     .y_label = "ms beyond everything in memory",
                     .lines = {{"SwapNet's cuts", {}}, {"best blocks", {}}}};
  const auto add = [&](ChartLine& line, uint64_t budget_mib, const BlockPlan& plan) {
    line.points.emplace_back(static_cast<double>(budget_mib),
                             milliseconds(plan.delay_ns - resnet.in_memory_ns()));
  };
  constexpr uint64_t from_mib = 24, to_mib = 168;
  for (uint64_t budget_mib = from_mib; budget_mib <= to_mib; budget_mib += 4) {
    if (const auto plan = tables.plan(budget_mib * mib)) add(chart.lines[0], budget_mib, *plan);
    if (const auto plan = budget::plan_blocks(resnet.costs, budget_mib * mib))
      add(chart.lines[1], budget_mib, *plan);
  }
  return chart;
}

/// Some inferences in each state, one right after the other.
LineChart memory_while_budgets_change(const PaperNetwork& resnet, TablePlans& tables) {
  LineChart chart = {.title = "ResNet-101 while its budget shrinks, SwapNet's cuts",
                     .x_label = "ms",
                     .y_label = "MiB",
                     .lines = {{"weights in memory", {}}, {"budget", {}, true}}};
  constexpr int inferences = 2;
  double begin_ms = 0;
  for (const PublishedState& state : states) {
    const auto plan = tables.plan(static_cast<uint64_t>(state.budget_mb) * mib);
    if (!plan) continue;
    const double first_ms = begin_ms;
    const ChartLine line = memory_line("", resnet, plan->ends);
    for (int i = 0; i < inferences; ++i) {
      for (const auto& [ms, size_mib] : line.points)
        chart.lines[0].points.emplace_back(begin_ms + ms, size_mib);
      begin_ms += line.points.back().first;
    }
    chart.lines[1].points.emplace_back(first_ms, state.budget_mb);
    chart.lines[1].points.emplace_back(begin_ms, state.budget_mb);
  }
  return chart;
}

}  // namespace

Result<Reproduction> figure_18(const ReproduceSettings&) {
  const auto resnet = paper_network(PaperModel::resnet101);
  if (!resnet) return tl::make_unexpected(resnet.error());
  TablePlans tables(*resnet);
  Table table = {
      .title = "ResNet-101 while its budget shrinks",
      .columns = {"published: MB", "published: blocks", "published: ms",
                  "published: adapted in, ms", "ours: MiB", "table: blocks", "table: MiB used",
                  "table: ms", "best: blocks", "best: MiB used", "best: ms"},
      .rows = {},
      .note = std::string("The budgets of the second and third state are in the paper's picture "
                          "alone; ours are the two smaller ones that its text gives ResNet-101. "
                          "Ours are delays with the first read. To adapt, `serve` looks the plan "
                          "up, in less than a millisecond (docs/explanation/benchmarks.md). ") +
              model_note};
  for (const PublishedState& it : states) {
    const auto bytes = static_cast<uint64_t>(it.budget_mb) * mib;
    const auto by_table = tables.plan(bytes);
    const auto best = budget::plan_blocks(resnet->costs, bytes);
    if (!best) return tl::make_unexpected(best.error());
    std::vector<std::string> row = {it.budget, it.blocks, it.latency, it.adapted,
                                    fmt::format("{:.0f}", it.budget_mb)};
    for (const BlockPlan* plan : {by_table ? &*by_table : nullptr, &*best}) {
      row.push_back(plan ? fmt::format("{}", plan->ends.size()) : "-");
      row.push_back(plan ? fmt::format("{:.1f}", mebibytes(plan->peak_bytes)) : "-");
      row.push_back(plan ? fmt::format("{:.1f}", milliseconds(plan->delay_ns)) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  const LineChart chart = delays_by_budget(*resnet, tables);
  return Reproduction{
      .tables = {std::move(table)},
      .pictures = {{"figure-18", svg_of(chart)},
                   {"figure-18-2", svg_of(memory_while_budgets_change(*resnet, tables))}},
      .lacks = {"Memory and latency over the minutes of a drive were measured on the vehicle."}};
}

// ---- Figure 19 ----

namespace {

/// What has to stay between two blocks: outputs of sections before `section` that it or a later one
/// reads.
uint64_t features_at(const network::Network& network, uint32_t section) {
  std::set<uint32_t> kept;
  for (size_t i = section; i < network.layers.size(); ++i) {
    for (const uint32_t input : network.layers[i].inputs) {
      if (input == network::network_input || input < section) kept.insert(input);
    }
  }
  uint64_t bytes = 0;
  for (const uint32_t source : kept) bytes += network.shape_of(source).size_bytes();
  return bytes;
}

uint64_t features_bytes(const PaperNetwork& network, const BlockEnds& ends) {
  uint64_t most_bytes = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const uint32_t section = network.layers[ends[i]].first_section;
    most_bytes = std::max(most_bytes, features_at(network.network, section));
  }
  return most_bytes;
}

}  // namespace

Result<Reproduction> figure_19(const ReproduceSettings&) {
  Table table = {
      .title = "Memory beside the blocks, MiB",
      .columns = {"network", "skeleton", "features between blocks", "table of all cuts",
                  "share of the budget, %"},
      .rows = {{"published, all networks", "0.01-0.06", "0.12-12.50", "0.50-3.43", "3.6 (mean)"}},
      .note =
          "Self-driving budgets, SwapNet's cuts. Skeleton: a pointer of 8 bytes for each "
          "tensor. Features: the most that any cut has to keep. Pictures here have 608 x 608 "
          "(YOLOv3), 320 x 320 (FCN) and 224 x 224; the paper does not give theirs."};
  for (const PublishedTask& task : applications().front().tasks) {
    const auto network = paper_network(task.model);
    if (!network) return tl::make_unexpected(network.error());
    const auto budget_bytes = static_cast<uint64_t>(task.budget_mb) * mib;
    const auto plan = budget::plan_by_table(network->costs, budget_bytes);
    if (!plan) return tl::make_unexpected(plan.error());
    const auto lookup = LookupTable::make(network->costs, static_cast<uint32_t>(plan->ends.size()));
    if (!lookup) return tl::make_unexpected(lookup.error());
    uint64_t skeleton_bytes = 0;
    for (const PaperLayer& layer : network->layers)
      skeleton_bytes += sizeof(void*) * layer.work.tensors;
    const uint64_t kept_bytes = features_bytes(*network, plan->ends);
    table.rows.push_back(
        {network->known.title, fmt::format("{:.3f}", mebibytes(skeleton_bytes)),
         fmt::format("{:.2f}", mebibytes(kept_bytes)),
         fmt::format("{:.2f}", mebibytes(lookup->size_bytes())),
         fmt::format("{:.1f}",
                     percent(skeleton_bytes + kept_bytes + lookup->size_bytes(), budget_bytes))});
  }
  return Reproduction{
      .tables = {std::move(table)},
      .pictures = {},
      .lacks = {"Power (b) was measured on the board: 3 W idle, 5.97 W with SwapNet, 5.64 W "
                "without."}};
}

}  // namespace weightpager::tools::swapnet
