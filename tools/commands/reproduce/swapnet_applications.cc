// Figures 11 to 13: the three applications, each with several networks in one budget.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "runtime/budget/lookup_table.h"
#include "runtime/budget/shares.h"
#include "tools/commands/reproduce/swapnet_baselines.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/commands/reproduce/swapnet_timeline.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::swapnet {
namespace {

using budget::BlockPlan;

/// A task with what is calculated for its published budget.
struct PlannedTask {
  PublishedTask task;
  PaperNetwork network;
  uint64_t budget_bytes = 0;
  BlockPlan by_table;
  BlockPlan best;
  PrunedNetwork pruned;
};

Result<PlannedTask> plan_task(const PublishedTask& task) {
  auto network = paper_network(task.model);
  if (!network) return forward_error(std::move(network));
  const auto budget_bytes = static_cast<uint64_t>(task.budget_mb) * mib;
  auto by_table = budget::plan_by_table(network->costs, budget_bytes);
  if (!by_table) return forward_error(std::move(by_table));
  auto best = budget::plan_blocks(network->costs, budget_bytes);
  if (!best) return forward_error(std::move(best));
  const double pruned_mb = task.pruned_mb > 0 ? task.pruned_mb : task.budget_mb;
  const PrunedNetwork narrow = pruned(*network, static_cast<uint64_t>(pruned_mb) * mib);
  return PlannedTask{.task = task,
                     .network = std::move(*network),
                     .budget_bytes = budget_bytes,
                     .by_table = std::move(*by_table),
                     .best = std::move(*best),
                     .pruned = narrow};
}

/// By task: copies of a task are planned once.
Result<std::vector<PlannedTask>> plan_tasks(const PublishedApplication& application) {
  std::vector<PlannedTask> planned;
  for (const PublishedTask& task : application.tasks) {
    if (!planned.empty() && planned.back().task.model == task.model) {
      planned.push_back(planned.back());
      continue;
    }
    auto it = plan_task(task);
    if (!it) return forward_error(std::move(it));
    planned.push_back(std::move(*it));
  }
  return planned;
}

// ---- Budgets ----

/// The claims on the budget; `latency_of` gives the time in memory that the score has.
std::vector<budget::Claim> claims_of(const std::vector<PlannedTask>& tasks,
                                     const std::function<double(const PlannedTask&)>& latency_of,
                                     bool has_published_least) {
  std::vector<budget::Claim> claims;
  for (const PlannedTask& it : tasks) {
    const bool is_by_hand = has_published_least && it.task.model == PaperModel::vgg19;
    claims.push_back(
        {.name = it.network.known.title,
         .model_bytes = it.network.size_bytes(),
         .least_bytes = is_by_hand ? it.budget_bytes : budget::least_budget_bytes(it.network.costs),
         .latency_ns = static_cast<uint64_t>(latency_of(it))});
  }
  return claims;
}

Result<Table> budgets_table(const PublishedApplication& application,
                            const std::vector<PlannedTask>& tasks) {
  const uint64_t bytes = static_cast<uint64_t>(application.budget_mb) * mib;
  // Where latency grows with the square of the size, scores are as sizes are.
  const auto by_size = budget::share_by_score(
      claims_of(
          tasks, [](const PlannedTask& it) { return std::pow(it.network.known.size_mb, 2); }, true),
      bytes);
  if (!by_size) return tl::make_unexpected(by_size.error());
  const auto by_score = budget::share_by_score(
      claims_of(
          tasks,
          [](const PlannedTask& it) { return static_cast<double>(it.network.in_memory_ns()); },
          false),
      bytes);
  if (!by_score) return tl::make_unexpected(by_score.error());
  Table table = {
      .title = fmt::format("Budgets of {:.0f} MB, {}", application.budget_mb, application.title),
      .columns = {"network", "MB, published / ours", "published budget",
                  "scores by size, VGG-19 by hand", "Eq. (1), these latencies",
                  "least budget in blocks"},
      .rows = {},
      .note = std::string("The published budgets are Equation (1) with a score that "
                          "grows with the size, not with latency. ") +
              model_note};
  for (size_t i = 0; i < tasks.size(); ++i) {
    const PlannedTask& it = tasks[i];
    const auto in_mb = [](uint64_t size) { return fmt::format("{:.0f}", mebibytes(size)); };
    table.rows.push_back({it.network.known.title,
                          fmt::format("{:.0f} / {:.1f}", it.network.known.size_mb,
                                      mebibytes(it.network.size_bytes())),
                          fmt::format("{:.0f}", it.task.budget_mb), in_mb((*by_size)[i]),
                          in_mb((*by_score)[i]),
                          in_mb(budget::least_budget_bytes(it.network.costs))});
  }
  return table;
}

// ---- Memory ----

struct MemoryUse {
  uint64_t whole = 0;       // DInf
  uint64_t pruned = 0;      // TPrg
  uint64_t by_channel = 0;  // DCha
  uint64_t by_table = 0;    // SwapNet
  uint64_t best = 0;
};

MemoryUse memory_of(const PlannedTask& it) {
  const uint64_t size_bytes = it.network.size_bytes();
  return {.whole = in_memory_bytes(it.network.known, size_bytes),
          .pruned = in_memory_bytes(it.network.known, it.pruned.size_bytes),
          .by_channel = by_channel_bytes(size_bytes),
          .by_table = it.by_table.peak_bytes,
          .best = it.best.peak_bytes};
}

Table memory_table(const PublishedApplication& application, const std::vector<PlannedTask>& tasks) {
  Table table = {.title = fmt::format("Memory for weights, MiB, {}", application.title),
                 .columns = {"network", "DInf", "TPrg", "DCha-like", "budget", "SwapNet's cuts",
                             "best blocks"},
                 .rows = {},
                 .note =
                     "DInf and TPrg: twice the weights on the CPU, three times on the GPU, as the "
                     "text says. TPrg: the published sizes where the text has them, else the "
                     "budget. DCha-like: all weights and half of them again."};
  for (const PlannedTask& it : tasks) {
    const MemoryUse use = memory_of(it);
    table.rows.push_back({it.network.known.title});
    for (const uint64_t bytes :
         {use.whole, use.pruned, use.by_channel, it.budget_bytes, use.by_table, use.best})
      table.rows.back().push_back(fmt::format("{:.1f}", mebibytes(bytes)));
  }
  return table;
}

/// How many percent less than `other_of` the network with SwapNet's cuts takes, over all networks.
PublishedRange less_than(const std::vector<PlannedTask>& tasks, uint64_t MemoryUse::*other) {
  PublishedRange range = {100, -100};
  for (const PlannedTask& it : tasks) {
    const MemoryUse use = memory_of(it);
    const double less = 100 - percent(use.by_table, use.*other);
    range = {std::min(range.low, less), std::max(range.high, less)};
  }
  return range;
}

std::string range_text(const PublishedRange& range) {
  return fmt::format("{:.1f}-{:.1f}", range.low, range.high);
}

Table less_table(const PublishedApplication& application, const std::vector<PlannedTask>& tasks) {
  const auto row = [&](const char* than, const PublishedRange& published_range,
                       uint64_t MemoryUse::*other) {
    return std::vector<std::string>{than, range_text(published_range),
                                    range_text(less_than(tasks, other))};
  };
  return {.title = fmt::format("How much less memory SwapNet takes, %, {}", application.title),
          .columns = {"than", "published", "ours, with SwapNet's cuts"},
          .rows = {row("DInf", application.less_than_whole, &MemoryUse::whole),
                   row("TPrg", application.less_than_pruned, &MemoryUse::pruned),
                   row("DCha", application.less_than_by_channel, &MemoryUse::by_channel)},
          .note = ""};
}

// ---- Latency ----

std::string plan_text(const PlannedTask& it, const BlockPlan& plan) {
  const Increase increase = increase_of(it.network, plan.ends);
  return fmt::format("{:.1f} / {:.1f}", milliseconds(increase.by_equation_ns),
                     milliseconds(increase.with_first_read_ns));
}

Table latency_table(const PublishedApplication& application,
                    const std::vector<PlannedTask>& tasks) {
  Table table = {
      .title = fmt::format("Latency, ms, {}", application.title),
      .columns = {"network", "in memory (DInf)", "pruned width", "TPrg-like", "blocks, table",
                  "table: beyond memory", "blocks, best", "best: beyond memory"},
      .rows = {},
      .note = fmt::format("Beyond memory: by Eq. (4) / with the first read. Published: {:.0f} to "
                          "{:.0f} ms for SwapNet. TPrg-like: channels pruned to TPrg's size, and "
                          "time by operations. {}",
                          application.increase_ms.low, application.increase_ms.high, model_note)};
  for (const PlannedTask& it : tasks) {
    const double in_memory_ms = milliseconds(it.network.in_memory_ns());
    table.rows.push_back({it.network.known.title, fmt::format("{:.0f}", in_memory_ms),
                          fmt::format("{:.2f}", it.pruned.width),
                          fmt::format("{:.0f}", in_memory_ms * it.pruned.operations_share),
                          fmt::format("{}", it.by_table.ends.size()), plan_text(it, it.by_table),
                          fmt::format("{}", it.best.ends.size()), plan_text(it, it.best)});
  }
  return table;
}

// ---- Pictures ----

std::optional<BarValue> bar(double value) { return BarValue{.value = value}; }

std::string memory_svg(const PublishedApplication& application,
                       const std::vector<PlannedTask>& tasks) {
  BarChart chart = {.title = fmt::format("Memory for weights, {}", application.title),
                    .y_label = "MiB",
                    .series = {"DInf", "TPrg", "DCha-like", "SwapNet's cuts", "best blocks"},
                    .groups = {}};
  for (const PlannedTask& it : tasks) {
    const MemoryUse use = memory_of(it);
    chart.groups.push_back({.name = it.network.known.title,
                            .bars = {bar(mebibytes(use.whole)), bar(mebibytes(use.pruned)),
                                     bar(mebibytes(use.by_channel)), bar(mebibytes(use.by_table)),
                                     bar(mebibytes(use.best))}});
  }
  return svg_of(chart);
}

std::string latency_svg(const PublishedApplication& application,
                        const std::vector<PlannedTask>& tasks) {
  BarChart chart = {.title = fmt::format("Latency with the first read, {}", application.title),
                    .y_label = "ms",
                    .series = {"DInf", "TPrg-like", "SwapNet's cuts", "best blocks"},
                    .groups = {}};
  for (const PlannedTask& it : tasks) {
    const double in_memory_ms = milliseconds(it.network.in_memory_ns());
    chart.groups.push_back(
        {.name = it.network.known.title,
         .bars = {bar(in_memory_ms), bar(in_memory_ms * it.pruned.operations_share),
                  bar(milliseconds(it.by_table.delay_ns)), bar(milliseconds(it.best.delay_ns))}});
  }
  return svg_of(chart);
}

/// One inference of each network, all beginning at once; copies of a task once.
std::string memory_over_time_svg(const PublishedApplication& application,
                                 const std::vector<PlannedTask>& tasks) {
  LineChart chart = {
      .title = fmt::format("Weights in memory, SwapNet's cuts, {}", application.title),
      .x_label = "ms",
      .y_label = "MiB",
      .lines = {}};
  for (const PlannedTask& it : tasks) {
    const std::string title = it.network.known.title;
    if (!chart.lines.empty() && chart.lines.back().name == title) continue;
    chart.lines.push_back(memory_line(title, it.network, it.by_table.ends));
  }
  return svg_of(chart);
}

Result<Reproduction> application_figure(const PublishedApplication& application) {
  const std::string figure = application.figure;
  const auto tasks = plan_tasks(application);
  if (!tasks) return tl::make_unexpected(tasks.error());
  auto budgets = budgets_table(application, *tasks);
  if (!budgets) return forward_error(std::move(budgets));
  Reproduction made = {
      .tables = {std::move(*budgets), memory_table(application, *tasks),
                 less_table(application, *tasks), latency_table(application, *tasks)},
      .pictures = {{figure + "-memory", memory_svg(application, *tasks)},
                   {figure + "-latency", latency_svg(application, *tasks)},
                   {figure + "-time", memory_over_time_svg(application, *tasks)}},
      .lacks = {}};
  made.lacks = {
      "Each network's memory and latency are in the paper's picture; its text has ranges.",
      "Accuracy: weights here are random, and pruned networks would have to be trained again.",
      "DCha's latency: the text does not say what a group of channels costs."};
  return made;
}

/// All tasks of all applications.
Result<std::vector<PlannedTask>> plan_all_tasks() {
  std::vector<PlannedTask> all;
  for (const PublishedApplication& application : applications()) {
    const auto tasks = plan_tasks(application);
    if (!tasks) return tl::make_unexpected(tasks.error());
    for (const PlannedTask& it : *tasks) all.push_back(it);
  }
  return all;
}

/// Percent beyond everything in memory, the mean over all tasks.
template <typename Nanoseconds>
double mean_increase(const std::vector<PlannedTask>& tasks, Nanoseconds beyond_ns) {
  double sum = 0;
  for (const PlannedTask& it : tasks) sum += percent(beyond_ns(it), it.network.in_memory_ns());
  return sum / static_cast<double>(tasks.size());
}

}  // namespace

Result<Reproduction> summary(const ReproduceSettings&) {
  const auto tasks = plan_all_tasks();
  if (!tasks) return tl::make_unexpected(tasks.error());
  PublishedRange times_budget = {1e9, 0};
  for (const PlannedTask& it : *tasks) {
    const MemoryUse use = memory_of(it);
    const double times = static_cast<double>(use.whole) / static_cast<double>(use.by_table);
    times_budget = {std::min(times_budget.low, times), std::max(times_budget.high, times)};
  }
  const double by_equation = mean_increase(*tasks, [](const PlannedTask& it) {
    return increase_of(it.network, it.by_table.ends).by_equation_ns;
  });
  const double with_read = mean_increase(*tasks, [](const PlannedTask& it) {
    return increase_of(it.network, it.by_table.ends).with_first_read_ns;
  });
  const double best = mean_increase(*tasks, [](const PlannedTask& it) {
    return increase_of(it.network, it.best.ends).with_first_read_ns;
  });
  Table table = {
      .title = fmt::format("What the abstract says of all {} tasks", tasks->size()),
      .columns = {"", "published", "ours, SwapNet's cuts", "ours, best blocks"},
      .rows = {{"memory in PyTorch, times SwapNet's", "2.32-5.81",
                fmt::format("{:.2f}-{:.2f}", times_budget.low, times_budget.high), ""},
               {"less memory than TPrg, %", "35.7-65.7",
                range_text(less_than(*tasks, &MemoryUse::pruned)), ""},
               {"mean latency beyond memory, by Eq. (4), %", "6.2",
                fmt::format("{:.1f}", by_equation), ""},
               {"mean latency beyond memory, with the first read, %", "6.2",
                fmt::format("{:.1f}", with_read), fmt::format("{:.1f}", best)}},
      .note = std::string("The text does not say whether its latencies have the first read. ") +
              model_note};
  return Reproduction{
      .tables = {std::move(table)},
      .pictures = {},
      .lacks = {"Accuracy (2.4 to 7.3 % above TPrg's): networks here have random weights."}};
}

Result<Reproduction> figure_11(const ReproduceSettings&) {
  return application_figure(applications()[0]);
}
Result<Reproduction> figure_12(const ReproduceSettings&) {
  return application_figure(applications()[1]);
}
Result<Reproduction> figure_13(const ReproduceSettings&) {
  return application_figure(applications()[2]);
}

}  // namespace weightpager::tools::swapnet
