#include "tools/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/report/html_text.h"
#include "tools/report/svg_parts.h"

namespace weightpager::tools {
namespace svg {
namespace {

constexpr double row_height = 22;

// These colours begin with a palette that colour-blind people can tell apart, too (Okabe and Ito).
constexpr auto line_colours =
    std::to_array<const char*>({"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                "#7f3c8d", "#8c564b", "#666666", "#999933"});

// Lines that get a colour for the second time have other dashes than those that had it before, and
// than what the lines are measured against.
constexpr auto line_dashes =
    std::to_array<const char*>({"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"10 3 2 3\""});

// A pixel gets one colour: that of the largest part of its time. It stays empty if that part is too
// small.
std::vector<TimeBar> in_pixels(const std::vector<TimeBar>& bars, double end, size_t colours) {
  constexpr auto pixels = static_cast<size_t>(plot_width);
  const double pixel = end / pixels;
  std::vector<std::vector<double>> times(pixels, std::vector<double>(colours, 0));
  for (const TimeBar& bar : bars) {
    const auto last = std::min(static_cast<size_t>(bar.end / pixel), pixels - 1);
    for (auto at = static_cast<size_t>(bar.begin / pixel); at <= last; ++at) {
      const double begin = std::max(bar.begin, static_cast<double>(at) * pixel);
      times[at][bar.colour] += std::min(bar.end, static_cast<double>(at + 1) * pixel) - begin;
    }
  }
  std::vector<TimeBar> joined;
  for (size_t at = 0; at < pixels; ++at) {
    const auto most = std::max_element(times[at].begin(), times[at].end());
    if (*most < pixel / static_cast<double>(colours + 1)) continue;
    const TimeBar bar{static_cast<double>(at) * pixel, static_cast<double>(at + 1) * pixel,
                      static_cast<size_t>(most - times[at].begin())};
    const bool goes_on = !joined.empty() && joined.back().colour == bar.colour &&
                         bar.begin - joined.back().end < pixel / 2;
    if (goes_on) {
      joined.back().end = bar.end;
    } else {
      joined.push_back(bar);
    }
  }
  return joined;
}

}  // namespace
}  // namespace svg

std::string svg_of(const LineChart& chart) {
  using namespace svg;
  double x_min = HUGE_VAL;
  double x_max = -HUGE_VAL;
  double y_max = 0;
  for (const ChartLine& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      x_min = std::min(x_min, x);
      x_max = std::max(x_max, x);
      y_max = std::max(y_max, y);
    }
  }
  if (x_min > x_max) x_min = x_max = 0;
  if (x_min == x_max) x_max = x_min + 1;
  const UpwardAxis upward(y_max);
  const double bottom = top + plot_height;
  const auto x_of = [&](double x) { return left + (x - x_min) / (x_max - x_min) * plot_width; };

  SideLegend legend;
  std::string plot;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const char* const colour = line_colours[i % line_colours.size()];
    std::string points;
    std::string dots;
    for (const auto& [x, y] : line.points) {
      points += fmt::format("{:.1f},{:.1f} ", x_of(x), upward.y_of(y));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x_of(x),
                          upward.y_of(y), colour);
    }
    const char* const dash = line.is_dashed
                                 ? " stroke-dasharray=\"6 4\""
                                 : line_dashes[i / line_colours.size() % line_dashes.size()];
    const std::string style = fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", colour, dash);
    plot += fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", points, style) + dots;
    legend.add(line_from(SideLegend::sign_begin, legend.y(), SideLegend::sign_end, legend.y(),
                         style.c_str()),
               line.name);
  }
  return svg_begin(legend.height(bottom + axis_height), chart.title) +
         x_axis(bottom, x_min, x_max, chart.x_label) + y_axis(upward, chart.y_label) + plot +
         legend.svg() + "</svg>\n";
}

std::string svg_of(const BlockChart& chart) {
  using namespace svg;
  double x_end = 0;
  double y_end = 0;
  for (const Block& it : chart.blocks) {
    x_end = std::max(x_end, it.x_end);
    y_end = std::max(y_end, it.y_end);
  }
  if (x_end == 0) x_end = 1;
  const UpwardAxis upward(y_end);
  const double bottom = top + plot_height;
  std::string svg = svg_begin(bottom + axis_height, chart.title);
  svg += x_axis(bottom, 0, x_end, chart.x_label) + y_axis(upward, chart.y_label);
  for (size_t i = 0; i < chart.blocks.size(); ++i) {
    const Block& it = chart.blocks[i];
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
        "fill-opacity=\"0.8\" stroke=\"#888\" stroke-width=\"0.5\"><title>{}</title></rect>\n",
        left + it.x_begin / x_end * plot_width, upward.y_of(it.y_end),
        (it.x_end - it.x_begin) / x_end * plot_width,
        upward.y_of(it.y_begin) - upward.y_of(it.y_end), line_colours[i % line_colours.size()],
        html_text(it.name));
  }
  return svg + "</svg>\n";
}

std::string svg_of(const TimeChart& chart) {
  using namespace svg;
  double end = 0;
  for (const TimeRow& row : chart.rows) {
    for (const TimeBar& bar : row.bars) end = std::max(end, bar.end);
  }
  if (end == 0) end = 1;
  const double bottom = top + row_height * static_cast<double>(chart.rows.size());
  const LegendBelow legend = legend_below(bottom + axis_height, chart.colours);

  std::string svg = svg_begin(legend.end, chart.title);
  svg += x_axis(bottom, 0, end, chart.x_label);
  double y = top;
  for (const TimeRow& row : chart.rows) {
    svg += text_at(left - 8, y + row_height * 0.65, "end", row.name);
    const std::vector<TimeBar> joined = in_pixels(row.bars, end, chart.colours.size());
    for (const TimeBar& bar : joined) {
      svg += rect_at(left + bar.begin / end * plot_width, y + 2,
                     std::max((bar.end - bar.begin) / end * plot_width, 0.3), row_height - 4,
                     chart.colours[bar.colour].second.c_str());
    }
    y += row_height;
  }
  return svg + legend.svg + "</svg>\n";
}

namespace svg {
namespace {

/// Three digits, without an exponent where a reader would have to count zeros.
std::string value_text(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

/// In a row of narrow bars, texts of the usual size would run into each other: they are smaller,
/// and upright where that is not enough.
std::string value_at(double middle, double y, double bar_width, const std::string& text) {
  const bool is_narrow = bar_width < 32;
  const double width = (is_narrow ? 5.5 : 7.5) * static_cast<double>(text.size());
  if (width <= bar_width + 2) {
    return fmt::format("<g font-size=\"{}\">\n{}</g>\n", is_narrow ? 9 : 12,
                       text_at(middle, y, "middle", text));
  }
  const double x = middle + 3;
  return fmt::format("<g font-size=\"9\" transform=\"rotate(-90 {:.1f} {:.1f})\">\n{}</g>\n", x, y,
                     text_at(x, y, "start", text));
}

/// A bar, its whisker, and its value above both.
std::string bar_at(double x, double bar_width, const UpwardAxis& upward, const BarValue& bar,
                   const char* colour) {
  const double y = upward.y_of(bar.value);
  const double middle = x + bar_width / 2;
  std::string svg = rect_at(x, y, bar_width, upward.y_of(0) - y, colour);
  double text_y = y;
  if (bar.low && bar.high) {
    const double low = upward.y_of(*bar.low);
    const double high = upward.y_of(*bar.high);
    text_y = std::min(y, high);
    svg += line_from(middle, low, middle, high, axis_style);
    for (const double end : {low, high})
      svg += line_from(middle - 4, end, middle + 4, end, axis_style);
  }
  return svg + value_at(middle, text_y - 4, bar_width, value_text(bar.value));
}

double top_of(const BarChart& chart) {
  double most = 0;
  for (const BarGroup& group : chart.groups) {
    for (const auto& bar : group.bars) {
      if (bar) most = std::max({most, bar->value, bar->high.value_or(0)});
    }
  }
  return most;
}

}  // namespace
}  // namespace svg

std::string svg_of(const BarChart& chart) {
  using namespace svg;
  const UpwardAxis upward(top_of(chart));
  const double bottom = top + plot_height;
  const double group_width = plot_width / std::max(1.0, static_cast<double>(chart.groups.size()));
  const double bar_width =
      std::min(60.0, 0.8 * group_width / std::max(1.0, static_cast<double>(chart.series.size())));
  std::string plot;
  size_t name_lines = 1;
  for (size_t i = 0; i < chart.groups.size(); ++i) {
    const BarGroup& group = chart.groups[i];
    const double middle = left + group_width * (static_cast<double>(i) + 0.5);
    double x = middle - bar_width * static_cast<double>(group.bars.size()) / 2;
    for (size_t k = 0; k < group.bars.size(); ++k, x += bar_width) {
      plot += group.bars[k] ? bar_at(x + 1, bar_width - 2, upward, *group.bars[k],
                                     line_colours[k % line_colours.size()])
                            : text_at(x + bar_width / 2, bottom - 4, "middle", "–");
    }
    const std::vector<std::string> lines = in_lines(group.name, group_width - 6);
    name_lines = std::max(name_lines, lines.size());
    plot += lines_at(middle, bottom + 16, "middle", lines);
  }
  SideLegend legend;
  for (size_t k = 0; chart.series.size() > 1 && k < chart.series.size(); ++k) {
    legend.add(rect_at(SideLegend::sign_begin, legend.y() - 5, 14, 10,
                       line_colours[k % line_colours.size()]),
               chart.series[k]);
  }
  const double names_height = 16 + line_height * static_cast<double>(name_lines);
  return svg_begin(legend.height(bottom + names_height), chart.title) +
         y_axis(upward, chart.y_label) +
         line_from(left, bottom, left + plot_width, bottom, axis_style) + plot + legend.svg() +
         "</svg>\n";
}

}  // namespace weightpager::tools
