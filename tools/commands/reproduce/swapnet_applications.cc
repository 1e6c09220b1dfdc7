// Figures 11 to 13: the three applications, each with several networks in one budget.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/budget/lookup_table.h"
#include "runtime/budget/shares.h"
#include "tools/commands/reproduce/swapnet_baselines.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/commands/reproduce/swapnet_timeline.h"
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

Result<Reproduction> application_figure(const PublishedApplication& application) {
  const auto tasks = plan_tasks(application);
  if (!tasks) return tl::make_unexpected(tasks.error());
  auto budgets = budgets_table(application, *tasks);
  if (!budgets) return forward_error(std::move(budgets));
  Reproduction made = {
      .tables = {std::move(*budgets), memory_table(application, *tasks),
                 less_table(application, *tasks), latency_table(application, *tasks)},
      .pictures = {},
      .lacks = {}};
  made.lacks = {
      "Each network's memory and latency are in the paper's picture; its text has ranges.",
      "Accuracy: weights here are random, and pruned networks would have to be trained again.",
      "DCha's latency: the text does not say what a group of channels costs."};
  return made;
}

}  // namespace

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
