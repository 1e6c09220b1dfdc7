// Figure 19b on this machine: power in blocks and in memory, where there are counters.
#include <fmt/format.h>

#include <utility>

#include "pager/telemetry/telemetry.h"
#include "tools/commands/reproduce/swapnet_figures.h"
#include "tools/commands/reproduce/swapnet_here.h"
#include "tools/probes/energy_counters.h"

namespace weightpager::tools::swapnet {
namespace {

/// By counter.
Result<std::vector<double>> watts_of(EnergyCounters& counters, NetworkInBlocks& network,
                                     const infer::WindowRequest& request, int inferences) {
  if (const auto taken = network.take_window(request); !taken)
    return tl::make_unexpected(taken.error());
  // The first inference reads what stays.
  if (const auto first = network.infer_once(); !first) return tl::make_unexpected(first.error());
  const std::vector<double> before = counters.joules();
  const uint64_t begin_ns = telemetry::monotonic_ns();
  for (int i = 0; i < inferences; ++i) {
    if (const auto ran = network.infer_once(); !ran) return tl::make_unexpected(ran.error());
  }
  const double seconds = static_cast<double>(telemetry::monotonic_ns() - begin_ns) / 1e9;
  std::vector<double> watts = counters.joules();
  for (size_t i = 0; i < watts.size(); ++i) watts[i] = (watts[i] - before[i]) / seconds;
  return watts;
}

}  // namespace

Result<Reproduction> figure_19_here(const ReproduceSettings& settings) {
  EnergyCounters counters = EnergyCounters::find();
  Reproduction made;
  made.lacks = counters.lacks();
  if (counters.names().empty()) return made;
  const auto parent = folder_on_disk(settings);
  if (!parent) return without_disk(settings);
  const auto task = resnet_here(settings);
  if (!task) return tl::make_unexpected(task.error());
  auto network = NetworkInBlocks::make(settings, *parent, *task);
  if (!network) return forward_error(std::move(network));
  Table table = {.title = fmt::format("This machine: watts while {} runs", task->title),
                 .columns = {"way"},
                 .rows = {},
                 .note = fmt::format("{} The counters are those of the whole machine: whatever "
                                     "else runs counts, too.",
                                     machine_note(settings))};
  table.columns.insert(table.columns.end(), counters.names().begin(), counters.names().end());
  const std::pair<const char*, infer::WindowRequest> ways[] = {
      {"in memory", {.pipeline = pipeline::Pipeline::preload}},
      {"in blocks", network->in_blocks(task->budget_bytes)}};
  for (const auto& [name, request] : ways) {
    const auto watts = watts_of(counters, *network, request, settings.is_quick ? 2 : 20);
    if (!watts) return tl::make_unexpected(watts.error());
    std::vector<std::string> row = {name};
    for (const double it : *watts) row.push_back(fmt::format("{:.1f}", it));
    table.rows.push_back(std::move(row));
  }
  made.tables.push_back(std::move(table));
  return made;
}

}  // namespace weightpager::tools::swapnet
