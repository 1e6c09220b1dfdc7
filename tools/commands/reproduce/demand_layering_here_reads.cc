// Figure 7 on this machine: reads through the page cache and past it, into several kinds of memory.
// (The paper's figure is a drawing; its choice is direct reads into pinned memory.)
#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "pager/base/units.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/probes/read_ways.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {
namespace {

/// Sizes of a read that the file is large enough for, in MiB.
std::vector<double> sizes_mib(uint64_t file_bytes) {
  std::vector<double> sizes;
  for (double mib = 1.0 / 16; mib <= 16 && mib <= mebibytes(file_bytes); mib *= 4)
    sizes.push_back(mib);
  return sizes;
}

/// A row of the table and a line of the picture for one way.
Status add_way(ReadProbe& probe, const ReadWay& way, std::chrono::milliseconds time, Table& table,
               LineChart& chart) {
  std::vector<std::string> row = {way.name};
  ChartLine line = {.name = way.name, .points = {}};
  WaySpeed last;
  for (const double mib : sizes_mib(probe.file_bytes())) {
    const auto speed = probe.read(way, static_cast<uint32_t>(mib * static_cast<double>(MiB)), time);
    if (!speed) return tl::make_unexpected(speed.error());
    last = *speed;
    line.points.emplace_back(mib, last.bytes_per_s / 1e9);
    row.push_back(fmt::format("{:.2f}", last.bytes_per_s / 1e9));
  }
  row.push_back(fmt::format("{:.2f}", last.processor_share * 1e9 / last.bytes_per_s));
  row.push_back(fmt::format("{:.1f}", mebibytes(last.cached_bytes)));
  table.rows.push_back(std::move(row));
  chart.lines.push_back(std::move(line));
  return {};
}

}  // namespace

Result<Reproduction> figure_7_here(const ReproduceSettings& settings) {
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    auto probe = ReadProbe::open(here.weights_path());
    if (!probe) return forward_error(std::move(probe));
    Table table = {
        .title = "This machine: reads of one file, one at a time, GB/s",
        .columns = {"way"},
        .rows = {},
        .note = fmt::format(
            "{} The file has {:.1f} MiB. A cold pass begins with an empty page cache; the host of "
            "a "
            "virtual disk may have a cache of its own. Registered memory is huge pages, pinned "
            "once, for "
            "io_uring.",
            machine_note(settings), mebibytes(probe->file_bytes()))};
    LineChart chart = {.title = "This machine: speed of reads by their size (Figure 7)",
                       .x_label = "MiB in one read",
                       .y_label = "GB/s",
                       .lines = {}};
    for (const double mib : sizes_mib(probe->file_bytes()))
      table.columns.push_back(mib < 1 ? fmt::format("{:.0f} KiB", mib * 1024)
                                      : fmt::format("{:.0f} MiB", mib));
    table.columns.emplace_back("processor s for each GB, largest reads");
    table.columns.emplace_back("then in the page cache, MiB");
    const std::chrono::milliseconds time(settings.is_quick ? 10 : 500);
    Reproduction made;
    for (const ReadWay& way : read_ways) {
      const Status added = add_way(*probe, way, time, table, chart);
      if (!added) {
        made.lacks.push_back(
            fmt::format("{}: {} ({}).", way.name, added.error().message, added.error().hint));
      }
    }
    made.tables.push_back(std::move(table));
    made.pictures.push_back({"figure-7-here", svg_of(chart)});
    if (settings.device == infer::DeviceKind::cpu) {
      made.lacks.emplace_back(
          "a GPU's memory: with --device cuda, figure-5-here has the copies into it.");
    }
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
