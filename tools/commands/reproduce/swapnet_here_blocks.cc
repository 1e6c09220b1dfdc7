// Figures 11 to 13, 15, 16 and 18 on this machine: one network at a time in blocks, measured.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "pager/base/units.h"
#include "runtime/budget/lookup_table.h"
#include "tools/commands/reproduce/swapnet_baselines.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_here.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools::swapnet {
namespace {

using budget::BlockEnds;
using infer::Assembly;
using infer::WindowRequest;

constexpr const char* as_measured =
    "Medians, in turns with everything in memory, on this machine's processors; in brackets the "
    "least and the most. Each inference begins with nothing in memory. Outputs are equal to the "
    "bit.";

int repeats_of(const ReproduceSettings& settings) { return settings.is_quick ? 1 : 5; }

std::string mib_text(uint64_t bytes) { return fmt::format("{:.1f}", mebibytes(bytes)); }
std::string ms_text(uint64_t ns) { return fmt::format("{:.1f}", milliseconds(ns)); }

std::string spread_text(const std::vector<uint64_t>& sorted_ns) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", milliseconds(sorted_ns.at(sorted_ns.size() / 2)),
                     milliseconds(sorted_ns.front()), milliseconds(sorted_ns.back()));
}

double ratio(uint64_t ns, uint64_t reference_ns) {
  return static_cast<double>(ns) / static_cast<double>(std::max<uint64_t>(reference_ns, 1));
}

/// "VGG-19, 224 x 224".
std::string name_of(const TaskHere& task, const network::Network& network) {
  return fmt::format("{}, {} x {}", task.title, network.input.width, network.input.height);
}

BarValue bar_of(const std::vector<uint64_t>& sorted_ns) {
  return {.value = milliseconds(sorted_ns.at(sorted_ns.size() / 2)),
          .low = milliseconds(sorted_ns.front()),
          .high = milliseconds(sorted_ns.back())};
}

using Visit = std::function<Status(const TaskHere& task, NetworkInBlocks& network)>;

/// Calls `visit` for each network, of which one is on the disk at a time.
Result<Reproduction> for_each(const ReproduceSettings& settings, const std::vector<TaskHere>& tasks,
                              Reproduction& made, const Visit& visit) {
  const auto parent = folder_on_disk(settings);
  if (!parent) return without_disk(settings);
  ProgressLine line;
  for (const TaskHere& task : tasks) {
    line.show(fmt::format("{}: fitting the delay model", task.title));
    auto network = NetworkInBlocks::make(settings, *parent, task);
    if (!network) return forward_error(std::move(network));
    line.show(fmt::format("{}: running in blocks", task.title));
    if (Status visited = visit(task, *network); !visited) return forward_error(std::move(visited));
  }
  line.clear();
  return std::move(made);
}

// ---- Figures 11 to 13: the paper's budgets ----

/// A row for one budget. A budget that is too small for blocks has the least one instead of times.
Status add_budget(const ReproduceSettings& settings, const TaskHere& task, NetworkInBlocks& network,
                  uint64_t budget_bytes, Table& table, BarChart& chart) {
  const uint64_t bytes = round_down(budget_bytes, os_page_bytes);
  const uint64_t least_bytes = budget::least_budget_bytes(network.costs());
  const int repeats = repeats_of(settings);
  const auto windowed = network.run({.window_bytes = bytes}, repeats);
  if (!windowed) return tl::make_unexpected(windowed.error());
  std::vector<std::string> row = {name_of(task, network.network()), mib_text(bytes)};
  BarGroup group = {.name = fmt::format("{}, {:.0f} MiB", task.title, mebibytes(bytes)),
                    .bars = {}};
  if (bytes < least_bytes) {
    const std::string least = fmt::format("least: {} MiB", mib_text(least_bytes));
    row.insert(row.end(), {least, "-", "-", "-", "-", spread_text(windowed->in_memory_ns)});
    group.bars = {bar_of(windowed->in_memory_ns), std::nullopt, bar_of(windowed->delays_ns)};
  } else {
    const auto blocks = network.run(network.in_blocks(bytes), repeats);
    if (!blocks) return tl::make_unexpected(blocks.error());
    const uint64_t planned_ns = blocks->use.blocks->delay_ns;
    row.insert(row.end(),
               {fmt::format("{}", blocks->use.units.size()), mib_text(blocks->window_bytes),
                ms_text(planned_ns), spread_text(blocks->delays_ns),
                fmt::format("{:.2f}", ratio(blocks->median_ns(), planned_ns)),
                spread_text(blocks->in_memory_ns)});
    group.bars = {bar_of(blocks->in_memory_ns), bar_of(blocks->delays_ns),
                  bar_of(windowed->delays_ns)};
  }
  row.push_back(mib_text(network.activation_bytes()));
  row.push_back(spread_text(windowed->delays_ns));
  table.rows.push_back(std::move(row));
  chart.groups.push_back(std::move(group));
  return {};
}

}  // namespace

Result<Reproduction> figure_11_here(const ReproduceSettings& settings) {
  const auto tasks = tasks_here(settings);
  if (!tasks) return tl::make_unexpected(tasks.error());
  Table table = {
      .title = "This machine: networks in blocks, at the self-driving budgets and at half of them",
      .columns = {"network", "MiB", "blocks", "two of them: MiB", "planned, ms", "measured, ms",
                  "measured / planned", "in memory, ms", "activations: MiB", "in a window, ms"},
      .rows = {},
      .note = fmt::format("{} {} The delay model is fitted to each network here. A window has a "
                          "ring of layers or tiles and pins, and reads across inferences.",
                          machine_note(settings), as_measured)};
  BarChart chart = {.title = "This machine: delay in memory, in blocks, in a window",
                    .y_label = "ms",
                    .series = {"in memory", "in blocks", "in a window"},
                    .groups = {}};
  Reproduction made;
  auto all = for_each(settings, *tasks, made,
                      [&](const TaskHere& task, NetworkInBlocks& network) -> Status {
                        const std::string name = name_of(task, network.network());
                        for (const uint64_t bytes : {task.budget_bytes, task.budget_bytes / 2}) {
                          Status added = add_budget(settings, task, network, bytes, table, chart);
                          if (!added) return added;
                        }
                        return {};
                      });
  if (!all || table.rows.empty()) return all;
  all->tables.push_back(std::move(table));
  all->pictures.push_back({"figure-11-here", svg_of(chart)});
  return all;
}

// ---- Figure 15: without parts of it ----

namespace {

struct Variant {
  const char* name;
  const char* published;
  WindowRequest request;
};

std::vector<Variant> variants_of(const NetworkInBlocks& network, const BlockEnds& planned) {
  WindowRequest by_copies = network.in_blocks(planned, Assembly::by_reference);
  by_copies.pipeline = pipeline::Pipeline::asynchronous;
  const BlockEnds equal =
      equal_blocks(budget::BlockSums(network.costs()), static_cast<uint32_t>(planned.size()));
  return {{"SwapNet", "", network.in_blocks(planned, Assembly::by_reference)},
          {"with a copy of each block", "w/o-uni-add: +26.3 to 50.1", by_copies},
          {"assembly by copy", "w/o-mod-ske: +15.7 to 29.0",
           network.in_blocks(planned, Assembly::by_copy)},
          {"blocks of equal size", "w/o-pat-sch: +19.0 to 34.3",
           network.in_blocks(equal, Assembly::by_reference)}};
}

}  // namespace

Result<Reproduction> figure_15_here(const ReproduceSettings& settings) {
  const auto tasks = tasks_here(settings);
  if (!tasks) return tl::make_unexpected(tasks.error());
  Table table = {
      .title = "This machine: SwapNet without its parts, at the self-driving budgets",
      .columns = {"network", "variant", "published: delay, %", "blocks", "weights: MiB",
                  "delay, ms", "more delay, %"},
      .rows = {},
      .note = fmt::format("{} {} As many blocks as the paper's rule says, planned by the best cut. "
                          "The paper's first variant copies for a GPU; here each block is copied "
                          "in memory once more.",
                          machine_note(settings), as_measured)};
  BarChart chart = {.title = "This machine: delay of SwapNet without its parts",
                    .y_label = "ms",
                    .series = {"SwapNet", "copied", "assembled by copy", "equal blocks"},
                    .groups = {}};
  Reproduction made;
  auto all = for_each(
      settings, *tasks, made, [&](const TaskHere& task, NetworkInBlocks& network) -> Status {
        const uint64_t model_bytes = budget::BlockSums(network.costs()).all().size_bytes;
        const auto blocks =
            static_cast<uint32_t>(budget::suggested_blocks(model_bytes, task.budget_bytes));
        const auto planned = budget::plan_blocks(
            network.costs(),
            std::max(task.budget_bytes, budget::least_budget_bytes(network.costs(), blocks)), {},
            blocks);
        if (!planned) return tl::make_unexpected(planned.error());
        BarGroup group = {.name = task.title, .bars = {}};
        uint64_t whole_ns = 0;
        for (const Variant& it : variants_of(network, planned->ends)) {
          const auto way = network.run(it.request, repeats_of(settings));
          if (!way) return tl::make_unexpected(way.error());
          if (whole_ns == 0) whole_ns = way->median_ns();
          table.rows.push_back(
              {name_of(task, network.network()), it.name, it.published,
               fmt::format("{}", way->use.units.size()), mib_text(way->window_bytes),
               spread_text(way->delays_ns),
               fmt::format("{:+.1f}", 100 * (ratio(way->median_ns(), whole_ns) - 1))});
          group.bars.push_back(bar_of(way->delays_ns));
        }
        chart.groups.push_back(std::move(group));
        return {};
      });
  if (!all || table.rows.empty()) return all;
  all->tables.push_back(std::move(table));
  all->pictures.push_back({"figure-15-here", svg_of(chart)});
  return all;
}

// ---- Figure 16: by number of blocks ----

Result<Reproduction> figure_16_here(const ReproduceSettings& settings) {
  const auto task = resnet_here(settings);
  if (!task) return tl::make_unexpected(task.error());
  Table table = {
      .title = fmt::format("This machine: {} by number of blocks", task->title),
      .columns = {"blocks", "two of them: MiB", "planned, ms", "measured, ms", "in memory, ms"},
      .rows = {},
      .note = fmt::format("{} {} The best cut into so many blocks, in the least memory that has "
                          "one. One block stays in memory.",
                          machine_note(settings), as_measured)};
  LineChart memory = {
      .title = fmt::format("This machine: memory of {} by number of blocks", task->title),
      .x_label = "blocks",
      .y_label = "MiB",
      .lines = {{"two blocks", {}}}};
  LineChart delay = {
      .title = fmt::format("This machine: delay of {} by number of blocks", task->title),
      .x_label = "blocks",
      .y_label = "ms",
      .lines = {{"measured", {}}, {"planned", {}}, {"in memory", {}, true}}};
  Reproduction made;
  auto all =
      for_each(settings, {*task}, made, [&](const TaskHere&, NetworkInBlocks& network) -> Status {
        for (uint32_t blocks = 1; blocks <= (settings.is_quick ? 3u : 7u); ++blocks) {
          const auto plan = budget::plan_blocks(
              network.costs(), budget::least_budget_bytes(network.costs(), blocks), {}, blocks);
          if (!plan) return tl::make_unexpected(plan.error());
          const auto way = network.run(network.in_blocks(plan->ends, Assembly::by_reference),
                                       repeats_of(settings));
          if (!way) return tl::make_unexpected(way.error());
          const uint64_t planned_ns = way->use.blocks->delay_ns;
          table.rows.push_back({fmt::format("{}", blocks), mib_text(way->window_bytes),
                                ms_text(planned_ns), spread_text(way->delays_ns),
                                spread_text(way->in_memory_ns)});
          memory.lines[0].points.emplace_back(blocks, mebibytes(way->window_bytes));
          delay.lines[0].points.emplace_back(blocks, milliseconds(way->median_ns()));
          delay.lines[1].points.emplace_back(blocks, milliseconds(planned_ns));
          delay.lines[2].points.emplace_back(blocks, milliseconds(way->in_memory_median_ns()));
        }
        return {};
      });
  if (!all || table.rows.empty()) return all;
  all->tables.push_back(std::move(table));
  all->pictures = {{"figure-16-here", svg_of(memory)}, {"figure-16-here-2", svg_of(delay)}};
  return all;
}

// ---- Figure 18: budgets that change ----

namespace {

/// The budgets that ResNet-101 has in the paper, from the largest down, and the first one again;
/// for another network as large parts of its weights.
std::vector<uint64_t> changing_budgets(const NetworkInBlocks& network) {
  std::vector<uint64_t> budgets;
  const auto all_bytes = static_cast<double>(network.network().folded_bytes());
  const uint64_t least_bytes = budget::least_budget_bytes(network.costs());
  for (const double mb : {136.0, 119.0, 102.0, 136.0}) {
    const auto bytes =
        static_cast<uint64_t>(mb / published(PaperModel::resnet101).size_mb * all_bytes);
    budgets.push_back(std::max(round_down(bytes, os_page_bytes), least_bytes));
  }
  return budgets;
}

}  // namespace

Result<Reproduction> figure_18_here(const ReproduceSettings& settings) {
  const auto task = resnet_here(settings);
  if (!task) return tl::make_unexpected(task.error());
  Table table = {.title = fmt::format("This machine: {} while its budget changes", task->title),
                 .columns = {"budget, MiB", "blocks", "two of them: MiB", "adapted in, ms",
                             "published, ms", "delay, ms"},
                 .rows = {},
                 .note = fmt::format("{} Adapting: the search for the blocks, and their memory.",
                                     machine_note(settings))};
  LineChart memory = {
      .title = fmt::format("This machine: memory of {} while its budget changes", task->title),
      .x_label = "inference",
      .y_label = "MiB",
      .lines = {{"two blocks", {}}, {"budget", {}, true}}};
  LineChart delay = {
      .title = fmt::format("This machine: delay of {} while its budget changes", task->title),
      .x_label = "inference",
      .y_label = "ms",
      .lines = {{"delay", {}}}};
  const int each = settings.is_quick ? 2 : 6;
  Reproduction made;
  auto all =
      for_each(settings, {*task}, made, [&](const TaskHere&, NetworkInBlocks& network) -> Status {
        const char* const adapted_in_paper[] = {"-", "74", "64", "-"};
        size_t change = 0;
        int inference = 0;
        for (const uint64_t budget_bytes : changing_budgets(network)) {
          const auto taken_ns = network.take_window(network.in_blocks(budget_bytes));
          if (!taken_ns) return tl::make_unexpected(taken_ns.error());
          std::vector<uint64_t> delays_ns;
          for (int i = 0; i < each; ++i, ++inference) {
            const auto delay_ns = network.infer_once();
            if (!delay_ns) return tl::make_unexpected(delay_ns.error());
            delays_ns.push_back(*delay_ns);
            delay.lines[0].points.emplace_back(inference, milliseconds(*delay_ns));
            memory.lines[0].points.emplace_back(inference, mebibytes(network.window_bytes()));
            memory.lines[1].points.emplace_back(inference, mebibytes(budget_bytes));
          }
          std::sort(delays_ns.begin(), delays_ns.end());
          table.rows.push_back({mib_text(budget_bytes), fmt::format("{}", network.blocks()),
                                mib_text(network.window_bytes()), ms_text(*taken_ns),
                                adapted_in_paper[change++], spread_text(delays_ns)});
        }
        return {};
      });
  if (!all || table.rows.empty()) return all;
  all->tables.push_back(std::move(table));
  all->pictures = {{"figure-18-here", svg_of(memory)}, {"figure-18-here-2", svg_of(delay)}};
  return all;
}

}  // namespace weightpager::tools::swapnet
