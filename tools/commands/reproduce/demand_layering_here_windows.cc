// Figure 13 on this machine: delay by window, and the window with the least delay by both searches.
//
// The costs of layers are measured once, and the equations give the delay with every window, so
// both searches take milliseconds. Some windows are run as well, in turns with Pre, from the
// smallest to beyond the one that was found: the measured curve beside the calculated one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pager/base/units.h"
#include "runtime/pipeline/search.h"
#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/commands/reproduce/demand_layering_published.h"
#include "tools/commands/reproduce/demand_layering_sweep.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using infer::Inference;
using pipeline::Rings;

namespace {

/// Async-MD and 2S-MD among `compared`.
constexpr std::array<size_t, 2> shown_curves = {3, 5};

/// A window that is run.
struct WindowPoint {
  std::string curve;
  infer::WindowRequest request;
  /// By equation; 0 of Pre.
  uint64_t expected_ns = 0;
  uint64_t window_bytes = 0;
  std::vector<uint64_t> delays_ns;  // sorted at the end

  uint64_t median_ns() const { return delays_ns[delays_ns.size() / 2]; }
};

/// From the smallest rings to beyond those without stalls (or, where nothing stalls, by a quarter),
/// in equal steps of whole pages; both rings grow, as in the paper.
std::vector<Rings> some_rings(const ComparedPipeline& how, const Costs& costs, size_t count) {
  const Rings least = pipeline::smallest_rings(how.pipeline, pipeline::work_units(costs));
  const uint64_t ring_count = least.device_bytes == 0 ? 1 : 2;
  const uint64_t grown_bytes =
      std::max((rings_of(how, costs).bytes() - least.bytes()) / ring_count, least.host_bytes / 4);
  const uint64_t step_bytes = round_up(grown_bytes * 5 / 4 / (count - 1) + 1, os_page_bytes);
  std::vector<Rings> rings;
  for (size_t i = 0; i < count; ++i) {
    rings.push_back(
        {.host_bytes = least.host_bytes + i * step_bytes,
         .device_bytes = least.device_bytes == 0 ? 0 : least.device_bytes + i * step_bytes});
  }
  return rings;
}

/// "Async-MD" is a point of the curve of Async.
std::string curve_name(const ComparedPipeline& how) {
  const std::string_view name = how.name;
  return std::string(name.substr(0, name.find('-')));
}

struct Windows {
  Table searches;
  Table measured;
  LineChart chart;
};

/// What both searches find, and the curve of the equations.
void add_searches(const ComparedPipeline& how, const Costs& costs, uint64_t step_bytes,
                  Windows& made) {
  const uint64_t all_bytes = sum_of(costs, &pipeline::UnitCosts::size_bytes);
  Sweep swept = sweep(how.name, how.pipeline, costs, step_bytes, all_bytes);
  const auto same = pipeline::smallest_rings_for_delay(how.pipeline, costs, swept.least_delay_ns);
  made.searches.rows.push_back(
      {how.name, fmt::format("{:.1f}", milliseconds(swept.least_delay_ns)),
       fmt::format("{:.2f}", mebibytes(swept.window_bytes)),
       same ? fmt::format("{:.2f}", mebibytes(same->bytes())) : "-",
       fmt::format("{:.2f}", mebibytes(rings_of(how, costs).bytes())),
       fmt::format("{:.1f}", milliseconds(sum_of(costs, &pipeline::UnitCosts::kernel_ns)))});
  // Beyond that nothing happens.
  const double end_mib = 1.5 * mebibytes(swept.window_bytes);
  std::erase_if(swept.line.points, [&](const auto& point) { return point.first > end_mib; });
  swept.line.name = fmt::format("{} by equation", curve_name(how));
  made.chart.lines.push_back(std::move(swept.line));
}

std::vector<WindowPoint> some_points(const Costs& costs, size_t count) {
  std::vector<WindowPoint> points = {
      {.curve = "Pre", .request = {.pipeline = pipeline::Pipeline::preload}}};
  for (const size_t which : shown_curves) {
    const ComparedPipeline& how = compared[which];
    for (const Rings& rings : some_rings(how, costs, count)) {
      points.push_back(
          {.curve = curve_name(how),
           .request = {.pipeline = how.pipeline, .rings = rings, .uses_overlay = false},
           .expected_ns = pipeline::delay_ns(how.pipeline, costs, rings)});
    }
  }
  return points;
}

/// Runs the points in turns, so that all of them see the same machine.
Status run_points(Inference& inference, std::span<const float> input, int turns,
                  std::vector<WindowPoint>& points) {
  for (int turn = 0; turn < turns; ++turn) {
    for (WindowPoint& point : points) {
      if (Status taken = inference.set_window(point.request); !taken) return taken;
      // The first inference in new memory takes longer and does not count.
      for (int i = 0; i < 2; ++i) {
        if (Status ran = inference.run({&input, 1}); !ran) return ran;
      }
      point.window_bytes = inference.window_bytes();
      point.delays_ns.push_back(inference.times().delay_ns());
    }
  }
  for (WindowPoint& point : points) std::sort(point.delays_ns.begin(), point.delays_ns.end());
  return {};
}

void add_points(const std::vector<WindowPoint>& points, Windows& made) {
  for (const size_t which : shown_curves) {
    ChartLine line = {.name = fmt::format("{} measured", curve_name(compared[which])),
                      .points = {}};
    for (const WindowPoint& it : points) {
      if (it.curve == curve_name(compared[which]))
        line.points.emplace_back(mebibytes(it.window_bytes), milliseconds(it.median_ns()));
    }
    made.chart.lines.push_back(std::move(line));
  }
  for (const WindowPoint& it : points) {
    made.measured.rows.push_back(
        {it.curve, fmt::format("{:.2f}", mebibytes(it.window_bytes)),
         it.expected_ns == 0 ? "-" : fmt::format("{:.1f}", milliseconds(it.expected_ns)),
         fmt::format("{:.1f}", milliseconds(it.median_ns())),
         fmt::format("{:.1f}", milliseconds(it.delays_ns.front())),
         fmt::format("{:.1f}", milliseconds(it.delays_ns.back()))});
  }
}

/// The delay with all weights in memory, as far as the curves go.
void add_pre(double pre_ms, LineChart& chart) {
  double first_mib = HUGE_VAL;
  double last_mib = 0;
  for (const ChartLine& line : chart.lines) {
    first_mib = std::min(first_mib, line.points.front().first);
    last_mib = std::max(last_mib, line.points.back().first);
  }
  chart.lines.push_back({"Pre measured", {{first_mib, pre_ms}, {last_mib, pre_ms}}, true});
}

Windows empty_windows(const ReproduceSettings& settings, const NetworkHere& here,
                      uint64_t step_bytes) {
  return {
      .searches = {.title = "This machine: the smallest window with the least delay, by both "
                            "searches, MiB",
                   .columns = {"pipeline", "least delay, ms", "the paper's sweep",
                               "ours, the same delay", "ours, 0.4 % more", "all kernels, ms"},
                   .rows = {},
                   .note = fmt::format("{} By equation, from reads, copies and kernels of each "
                                       "layer as measured here. The sweep takes steps of {} KiB "
                                       "in each buffer.",
                                       machine_note(settings), step_bytes / KiB)},
      .measured = {.title = "This machine: delay by window, ms",
                   .columns = {"pipeline", "window, MiB", "by equation", "measured: median",
                               "least", "most"},
                   .rows = {},
                   .note = ""},
      .chart = {.title = fmt::format("This machine: {}, delay by window", here.name()),
                .x_label = "MiB for weights",
                .y_label = "delay, ms",
                .lines = {}}};
}

}  // namespace

Result<Reproduction> figure_13_here(const ReproduceSettings& settings) {
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    const auto runs = layers_here(settings, here, settings.is_quick ? 2 : 5);
    if (!runs) return tl::make_unexpected(runs.error());
    const Costs costs = infer::median_costs(*runs);
    const uint64_t step_bytes = here.network().folded_bytes() < 32 * MiB ? 64 * KiB : 1 * MiB;
    Windows made = empty_windows(settings, here, step_bytes);
    for (const size_t which : shown_curves) add_searches(compared[which], costs, step_bytes, made);
    auto inference = open_here(settings, here, pipeline::Pipeline::preload);
    if (!inference) return forward_error(std::move(inference));
    std::vector<WindowPoint> points = some_points(costs, settings.is_quick ? 2 : 6);
    const Status ran = run_points(**inference, infer::some_input(here.network()),
                                  settings.is_quick ? 1 : 3, points);
    if (!ran) return tl::make_unexpected(ran.error());
    add_points(points, made);
    add_pre(milliseconds(points.front().median_ns()), made.chart);
    return Reproduction{.tables = {std::move(made.searches), std::move(made.measured)},
                        .pictures = {{"figure-13-here", svg_of(made.chart)}},
                        .lacks = {}};
  });
}

}  // namespace weightpager::tools::demand_layering
