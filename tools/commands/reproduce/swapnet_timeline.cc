// See swapnet_timeline.h.
#include "tools/commands/reproduce/swapnet_timeline.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "runtime/budget/block_timeline.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::swapnet {

const char* const model_note = "Delays are by the delay model: figure-9 says from what.";

std::string timeline_svg(const std::string& title, const PaperNetwork& network,
                         const budget::BlockEnds& ends) {
  constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};
  const auto blocks = budget::block_costs(network.costs, ends);
  const auto times = budget::block_timeline(blocks);
  TimeChart chart = {
      .title = fmt::format("{}: {:.1f} ms", title, milliseconds(times.back().kernel.end_ns)),
      .x_label = "ms",
      .colours = {},
      .rows = {{"read", {}}, {"compute", {}}, {"let go", {}}}};
  constexpr std::array stages = {&budget::BlockTimes::read, &budget::BlockTimes::kernel,
                                 &budget::BlockTimes::release};
  for (size_t i = 0; i < times.size(); ++i) {
    chart.colours.emplace_back(
        fmt::format("block {}, {:.0f} MiB", i + 1, mebibytes(blocks[i].size_bytes)),
        colours[i % colours.size()]);
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const budget::BlockSpan& span = times[i].*stages[stage];
      chart.rows[stage].bars.push_back({milliseconds(span.begin_ns), milliseconds(span.end_ns), i});
    }
  }
  return svg_of(chart);
}

ChartLine memory_line(const std::string& name, const PaperNetwork& network,
                      const budget::BlockEnds& ends) {
  const auto blocks = budget::block_costs(network.costs, ends);
  const auto times = budget::block_timeline(blocks);
  // What comes and what goes, by time.
  std::map<uint64_t, int64_t> changes;
  for (size_t i = 0; i < blocks.size(); ++i) {
    changes[times[i].read.begin_ns] += static_cast<int64_t>(blocks[i].size_bytes);
    changes[times[i].release.end_ns] -= static_cast<int64_t>(blocks[i].size_bytes);
  }
  ChartLine line = {.name = name, .points = {}};
  int64_t bytes = 0;
  for (const auto& [time_ns, change] : changes) {
    const double time_ms = milliseconds(time_ns);
    line.points.emplace_back(time_ms, mebibytes(static_cast<uint64_t>(bytes)));
    bytes += change;
    line.points.emplace_back(time_ms, mebibytes(static_cast<uint64_t>(bytes)));
  }
  return line;
}

std::string layers_text(const budget::BlockEnds& ends) {
  constexpr size_t named_max = 7;
  if (ends.size() > named_max) return fmt::format("{} blocks", ends.size());
  std::string text;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : ", ", begin + 1, end);
    begin = end;
  }
  return text;
}

}  // namespace weightpager::tools::swapnet
