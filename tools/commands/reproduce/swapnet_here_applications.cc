// The three applications of SwapNet on this machine: their networks side by side in one budget, in
// blocks, in windows, and with all weights in memory.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "pager/base/units.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/serve/serving.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_here.h"
#include "tools/commands/reproduce/swapnet_inputs.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools::swapnet {
namespace {

using serve::ServedInference;
using serve::Serving;

constexpr uint64_t second_ns = 1'000'000'000;
/// More than all networks take.
constexpr uint64_t unlimited_bytes = uint64_t{1} << 40;

/// Networks that run side by side, and the budget for their weights.
struct ApplicationHere {
  std::string figure;
  std::string title;
  std::vector<TaskHere> tasks;
  uint64_t budget_bytes = 0;
};

/// A second task of one network has a number.
void add_task(ApplicationHere& application, TaskHere task) {
  const auto before = std::count_if(application.tasks.begin(), application.tasks.end(),
                                    [&](const TaskHere& it) { return it.name == task.name; });
  if (before > 0) task.title = fmt::format("{} ({})", task.title, before + 1);
  application.tasks.push_back(std::move(task));
}

Result<std::vector<ApplicationHere>> list_applications(const ReproduceSettings& settings) {
  std::vector<ApplicationHere> made;
  if (settings.is_quick || !settings.network.empty()) {
    const auto tasks = tasks_here(settings);
    if (!tasks) return tl::make_unexpected(tasks.error());
    const TaskHere& one = tasks->front();
    ApplicationHere application = {"figure-11", "two of " + one.title, {}, 2 * one.budget_bytes};
    for (int i = 0; i < 2; ++i) add_task(application, one);
    made.push_back(std::move(application));
    return made;
  }
  for (const PublishedApplication& it : applications()) {
    ApplicationHere application = {
        it.figure, it.title, {}, static_cast<uint64_t>(it.budget_mb) * mib};
    for (const PublishedTask& task : it.tasks) add_task(application, task_here(task));
    made.push_back(std::move(application));
  }
  return made;
}

/// Each network's files and description, by name: two tasks of one network share them.
class FilesHere {
 public:
  explicit FilesHere(std::string parent) : parent_(std::move(parent)) {}

  Result<serve::NetworkRequest> request(const TaskHere& task, int threads) {
    auto found = networks_.find(task.name);
    if (found == networks_.end()) {
      auto made = NetworkHere::make(parent_, task.name);
      if (!made) return forward_error(std::move(made));
      found = networks_.emplace(task.name, std::move(*made)).first;
    }
    serve::NetworkRequest request = {.name = task.title,
                                     .network = found->second.network(),
                                     .weights_path = found->second.weights_path(),
                                     .threads = threads};
    if (task.resolution) {
      auto resized = found->second.at(*task.resolution);
      if (!resized) return forward_error(std::move(resized));
      request.network = std::move(*resized);
    }
    return request;
  }

 private:
  std::string parent_;
  std::map<std::string, NetworkHere> networks_;
};

/// What became of an application while it ran in one way.
struct ServedWay {
  std::string name;
  std::vector<uint64_t> share_bytes;                     // by network
  std::vector<std::vector<ServedInference>> inferences;  // by network
  uint64_t begin_ns = 0;

  uint64_t median_ns(size_t network) const {
    std::vector<uint64_t> delays_ns;
    for (const ServedInference& it : inferences[network]) delays_ns.push_back(it.delay_ns());
    std::sort(delays_ns.begin(), delays_ns.end());
    return delays_ns.empty() ? 0 : delays_ns[delays_ns.size() / 2];
  }
};

/// Lets the networks run in this budget until each has had some inferences in it.
Result<ServedWay> run_in(Serving& serving, const std::string& name, uint64_t budget_bytes,
                         size_t inferences_each) {
  if (const auto set = serving.set_budget(budget_bytes); !set)
    return tl::make_unexpected(set.error());
  ServedWay way = {.name = name};
  const auto has_followed = [](const serve::NetworkState& it) {
    return it.held_bytes == it.share_bytes;
  };
  const auto wait = [&](const std::function<bool(const serve::ServingState&)>& is_over) -> Status {
    while (!is_over(serving.state())) {
      if (Status runs = serving.wait(second_ns / 100); !runs) return runs;
    }
    return {};
  };
  Status waited = wait([&](const serve::ServingState& state) {
    return std::all_of(state.networks.begin(), state.networks.end(), has_followed);
  });
  if (!waited) return forward_error(std::move(waited));
  way.begin_ns = telemetry::monotonic_ns();
  std::vector<uint64_t> before;
  for (const serve::NetworkState& it : serving.state().networks) before.push_back(it.inferences);
  // The inference under way began before.
  waited = wait([&](const serve::ServingState& state) {
    for (size_t i = 0; i < before.size(); ++i) {
      if (state.networks[i].inferences < before[i] + 1 + inferences_each) return false;
    }
    return true;
  });
  if (!waited) return forward_error(std::move(waited));
  const serve::ServingState state = serving.state();
  for (size_t i = 0; i < state.networks.size(); ++i) {
    way.share_bytes.push_back(state.networks[i].share_bytes);
    std::vector<ServedInference> counted = serving.inferences(static_cast<uint32_t>(i));
    std::erase_if(counted, [&](const ServedInference& it) { return it.start_ns < way.begin_ns; });
    way.inferences.push_back(std::move(counted));
  }
  return way;
}

uint64_t fixed_bytes(const serve::ServingState& state) {
  uint64_t bytes = 0;
  for (const serve::NetworkState& it : state.networks) bytes += it.fixed_bytes;
  return bytes;
}

/// In memory and in the budget, by windows or by blocks.
Status add_ways(const ApplicationHere& application, FilesHere& files,
                const ReproduceSettings& settings, bool is_by_blocks,
                std::vector<ServedWay>& ways) {
  const int threads = std::max(settings.threads / static_cast<int>(application.tasks.size()), 1);
  std::vector<serve::NetworkRequest> requests;
  for (const TaskHere& task : application.tasks) {
    auto request = files.request(task, threads);
    if (!request) return forward_error(std::move(request));
    requests.push_back(std::move(*request));
  }
  const auto serving = Serving::start(
      std::move(requests), {.budget_bytes = unlimited_bytes, .is_by_blocks = is_by_blocks});
  if (!serving) return tl::make_unexpected(serving.error());
  const size_t each = settings.is_quick ? 2 : 5;
  if (!is_by_blocks) {
    auto way = run_in(**serving, "in memory", unlimited_bytes, each);
    if (!way) return forward_error(std::move(way));
    ways.push_back(std::move(*way));
  }
  auto way = run_in(**serving, is_by_blocks ? "blocks" : "windows",
                    application.budget_bytes + fixed_bytes((*serving)->state()), each);
  if (!way) return forward_error(std::move(way));
  ways.push_back(std::move(*way));
  return {};
}

void add_rows(const ApplicationHere& application, const std::vector<ServedWay>& ways,
              Table& table) {
  for (size_t i = 0; i < application.tasks.size(); ++i) {
    std::vector<std::string> row = {application.title, application.tasks[i].title};
    for (const ServedWay& way : ways)
      row.push_back(fmt::format("{:.1f}", mebibytes(way.share_bytes[i])));
    for (const ServedWay& way : ways)
      row.push_back(fmt::format("{:.1f}", milliseconds(way.median_ns(i))));
    const auto more = [&](const ServedWay& way) {
      const auto in_memory = static_cast<double>(ways.front().median_ns(i));
      return fmt::format("{:+.1f}", 100 * (static_cast<double>(way.median_ns(i)) / in_memory - 1));
    };
    for (const ServedWay& way : std::span(ways).subspan(1)) row.push_back(more(way));
    table.rows.push_back(std::move(row));
  }
}

/// The delay of each inference by the time of its end.
std::string delays_svg(const ApplicationHere& application, const ServedWay& way) {
  LineChart chart = {.title = fmt::format("This machine: {}, {} in {:.0f} MiB", application.title,
                                          way.name, mebibytes(application.budget_bytes)),
                     .x_label = "seconds",
                     .y_label = "delay, ms",
                     .lines = {}};
  for (size_t i = 0; i < application.tasks.size(); ++i) {
    ChartLine line = {application.tasks[i].title, {}};
    for (const ServedInference& it : way.inferences[i]) {
      line.points.emplace_back(
          static_cast<double>(it.finish_ns - way.begin_ns) / static_cast<double>(second_ns),
          milliseconds(it.delay_ns()));
    }
    chart.lines.push_back(std::move(line));
  }
  return svg_of(chart);
}

std::string memory_svg(const ApplicationHere& application, const std::vector<ServedWay>& ways) {
  BarChart chart = {.title = fmt::format("This machine: {}, memory for weights", application.title),
                    .y_label = "MiB",
                    .series = {},
                    .groups = {}};
  for (const ServedWay& way : ways) chart.series.push_back(way.name);
  for (size_t i = 0; i < application.tasks.size(); ++i) {
    BarGroup group = {.name = application.tasks[i].title, .bars = {}};
    for (const ServedWay& way : ways)
      group.bars.emplace_back(BarValue{.value = mebibytes(way.share_bytes[i])});
    chart.groups.push_back(std::move(group));
  }
  return svg_of(chart);
}

}  // namespace

Result<Reproduction> applications_here(const ReproduceSettings& settings) {
  const auto parent = folder_on_disk(settings);
  if (!parent) return without_disk(settings);
  const auto all = list_applications(settings);
  if (!all) return tl::make_unexpected(all.error());
  Table table = {
      .title = "This machine: the applications' networks side by side",
      .columns = {"application", "network", "in memory: MiB", "windows: MiB", "blocks: MiB",
                  "in memory: delay, ms", "windows: delay, ms", "blocks: delay, ms",
                  "windows: more, %", "blocks: more, %"},
      .rows = {},
      .note = fmt::format(
          "{} All networks compute on these processors at once, inference after inference; the "
          "paper's run on processors of their own and on a GPU. Shares make the mean slowdown "
          "small. Medians of the inferences in each budget, which is for weights; activations come "
          "on top. YOLOv3 at 416 x 416, FCN at 224 x 224.",
          machine_note(settings))};
  Reproduction made;
  FilesHere files(*parent);
  ProgressLine line;
  for (const ApplicationHere& application : *all) {
    std::vector<ServedWay> ways;
    for (const bool is_by_blocks : {false, true}) {
      line.show(fmt::format("{}, {}", application.title, is_by_blocks ? "blocks" : "windows"));
      Status added = add_ways(application, files, settings, is_by_blocks, ways);
      if (!added) return forward_error(std::move(added));
    }
    add_rows(application, ways, table);
    const std::string name = "applications-here-" + application.figure;
    made.pictures.push_back({name, memory_svg(application, ways)});
    made.pictures.push_back({name + "-delays", delays_svg(application, ways.back())});
  }
  line.clear();
  made.tables.push_back(std::move(table));
  return made;
}

}  // namespace weightpager::tools::swapnet
