// Figures 6, 14 and 15 on this machine: what the size of the input changes, measured.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/network/resolution.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using infer::Comparison;
using pipeline::UnitCosts;

namespace {

/// What sides of pictures have to be multiples of, as far as the network shows it: the first step
/// down from its own size that it can take. Nothing if it takes no other size.
std::optional<uint32_t> grain_of(const NetworkHere& here) {
  const uint32_t own = here.network().input.height;
  for (const uint32_t grain : {32u, 64u, 128u}) {
    if (own > grain && here.at({own - grain, own - grain})) return grain;
  }
  return {};
}

/// From about three eighths of the network's own size up to it, in equal steps.
std::vector<uint32_t> sides_here(const NetworkHere& here, bool is_quick) {
  const uint32_t own = here.network().input.height;
  const auto grain = grain_of(here);
  if (!grain) return {own};
  const uint32_t steps = is_quick ? 1 : 4;
  const double step_grains = own * 5.0 / 8 / steps / *grain;
  const uint32_t step = std::max(1u, static_cast<uint32_t>(std::lround(step_grains))) * *grain;
  std::vector<uint32_t> sides;
  for (uint32_t i = steps + 1; i-- > 0;) {
    if (own > i * step + own / 4) sides.push_back(own - i * step);
  }
  return sides;
}

constexpr std::array<std::pair<const char*, uint64_t UnitCosts::*>, 3> shown_times = {
    {{"reads", &UnitCosts::read_ns},
     {"copies", &UnitCosts::copy_ns},
     {"kernels", &UnitCosts::kernel_ns}}};
constexpr std::array<const char*, 3> shown_delays = {"Pre", "2S", "2S-MD"};
constexpr std::array<const char*, 2> shown_windows = {"2S", "2S-MD"};

/// The three pictures, and the table with the values of all.
struct BySize {
  LineChart totals;
  LineChart delay;
  LineChart memory;
  Table table;

  explicit BySize(const std::string& name) {
    const auto chart = [&](const char* title, const char* unit) {
      return LineChart{.title = fmt::format("This machine: {}, {}", name, title),
                       .x_label = "pixels of a side",
                       .y_label = unit,
                       .lines = {}};
    };
    totals = chart("times of all layers by input resolution (Figure 6)", "ms");
    delay = chart("measured delays by input resolution (Figure 14)", "delay, ms");
    memory = chart("windows by input resolution (Figure 15)", "MiB for weights");
    table = {.title = fmt::format("This machine: {} by input resolution (Figures 6, 14, 15)", name),
             .columns = {"input"},
             .rows = {},
             .note = ""};
    for (const auto& [it, part] : shown_times) {
      totals.lines.push_back({it, {}});
      table.columns.push_back(fmt::format("all {}, ms", it));
    }
    for (const char* const it : shown_delays) {
      delay.lines.push_back({it, {}, it == std::string("Pre")});
      table.columns.push_back(fmt::format("{}: delay, ms", it));
    }
    for (const char* const it : shown_windows) {
      memory.lines.push_back({it, {}});
      table.columns.push_back(fmt::format("{}: MiB", it));
    }
  }

  void add(uint32_t side, const Comparison& comparison) {
    std::vector<std::string> row = {fmt::format("{0}x{0}", side)};
    const auto point = [&](ChartLine& line, double value) {
      line.points.emplace_back(side, value);
      row.push_back(fmt::format("{:.1f}", value));
    };
    const UnitCosts all = comparison.all_layers();
    for (size_t i = 0; i < shown_times.size(); ++i)
      point(totals.lines[i], milliseconds(all.*shown_times[i].second));
    for (size_t i = 0; i < shown_delays.size(); ++i)
      point(delay.lines[i], milliseconds(comparison.find(shown_delays[i])->median_ns()));
    for (size_t i = 0; i < shown_windows.size(); ++i)
      point(memory.lines[i], mebibytes(comparison.find(shown_windows[i])->window_bytes));
    table.rows.push_back(std::move(row));
  }
};

}  // namespace

Result<Reproduction> figure_6_here(const ReproduceSettings& settings) {
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    infer::ComparisonOptions options;
    options.inferences = settings.is_quick ? 1 : 3;
    BySize sizes(here.name());
    sizes.table.note = fmt::format(
        "{} Medians of {} inferences; times of layers are medians of "
        "those that ran alone.",
        machine_note(settings), options.inferences);
    Reproduction made;
    const std::vector<uint32_t> sides = sides_here(here, settings.is_quick);
    if (sides.size() == 1) {
      made.lacks.push_back(
          fmt::format("other sizes of pictures: {} takes none with its weights.", here.name()));
    }
    for (const uint32_t side : sides) {
      const auto network = here.at({side, side});
      if (!network) return tl::make_unexpected(network.error());
      const auto comparison = compare_here(settings, *network, here, options);
      if (!comparison) return tl::make_unexpected(comparison.error());
      sizes.add(side, *comparison);
    }
    made.pictures = {{"figure-6-here", svg_of(sizes.totals)},
                     {"figure-14-here", svg_of(sizes.delay)},
                     {"figure-15-here", svg_of(sizes.memory)}};
    made.tables.push_back(std::move(sizes.table));
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
