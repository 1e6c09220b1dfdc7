#include "tools/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace weightpager::tools {
namespace {

constexpr double width = 900;
constexpr double left = 110;
constexpr double right = 180;
constexpr double top = 36;
constexpr double plot_width = width - left - right;
constexpr double line_plot_height = 300;
constexpr double row_height = 22;
constexpr double axis_height = 46;
constexpr int ticks = 5;

// These colours begin with a palette that colour-blind people can tell apart, too (Okabe and Ito).
constexpr auto line_colours =
    std::to_array<const char*>({"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                "#7f3c8d", "#8c564b", "#666666", "#000000"});

// Lines that get a colour for the second time have other dashes than those that had it before, and
// than what the lines are measured against.
constexpr auto line_dashes =
    std::to_array<const char*>({"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"10 3 2 3\""});

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     html_text(text));
}

std::string svg_begin(double height, const std::string& title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
             "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>{}</title>\n"
             "<style>:root{{color-scheme:light dark}} text{{fill:#222}} "
             "@media (prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n",
             width, height, html_text(title)) +
         text_at(left, 20, "start", title);
}

/// A round number at or above `value`: 1, 2, 2.5 or 5 times a power of ten.
double round_above(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

std::string x_axis(double y, double begin, double end, const std::string& label) {
  std::string svg = fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#888\"/>\n", left,
      left + plot_width, y);
  for (int i = 0; i <= ticks; ++i) {
    const double share = static_cast<double>(i) / ticks;
    svg += text_at(left + share * plot_width, y + 16, "middle",
                   fmt::format("{:.4g}", begin + share * (end - begin)));
  }
  return svg + text_at(left + plot_width / 2, y + 36, "middle", label);
}

/// From 0 at the bottom to `end` at the top, with a line across the plot at each number.
std::string y_axis(double end, const std::string& label) {
  std::string svg;
  for (int i = 0; i <= ticks; ++i) {
    const double share = static_cast<double>(i) / ticks;
    const double y = top + line_plot_height * (1 - share);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#8884\"/>\n",
        left, left + plot_width, y);
    svg += text_at(left - 8, y + 4, "end", fmt::format("{:.4g}", share * end));
  }
  return svg + fmt::format("<g transform=\"rotate(-90)\">{}</g>\n",
                           text_at(-(top + line_plot_height / 2), 40, "middle", label));
}

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

std::string html_text(const std::string& text) {
  std::string html;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += letter;
    }
  }
  return html;
}

std::string svg_of(const LineChart& chart) {
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
  y_max = round_above(y_max);
  const double bottom = top + line_plot_height;
  const auto place = [&](double x, double y) {
    return std::pair(left + (x - x_min) / (x_max - x_min) * plot_width,
                     bottom - y / y_max * line_plot_height);
  };

  std::string svg = svg_begin(bottom + axis_height, chart.title);
  svg += x_axis(bottom, x_min, x_max, chart.x_label);
  svg += y_axis(y_max, chart.y_label);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const char* const colour = line_colours[i % line_colours.size()];
    std::string points;
    std::string dots;
    for (const auto& [x, y] : line.points) {
      const auto [at_x, at_y] = place(x, y);
      points += fmt::format("{:.1f},{:.1f} ", at_x, at_y);
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at_x, at_y,
                          colour);
    }
    const char* const dash = line.is_dashed
                                 ? " stroke-dasharray=\"6 4\""
                                 : line_dashes[i / line_colours.size() % line_dashes.size()];
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                    points, colour, dash) +
        dots;
    const double legend_y = top + 10 + 18 * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
        "stroke-width=\"2\"{4}/>\n",
        left + plot_width + 16, left + plot_width + 40, legend_y, colour, dash);
    svg += text_at(left + plot_width + 46, legend_y + 4, "start", line.name);
  }
  return svg + "</svg>\n";
}

std::string svg_of(const BlockChart& chart) {
  double x_end = 0;
  double y_end = 0;
  for (const Block& it : chart.blocks) {
    x_end = std::max(x_end, it.x_end);
    y_end = std::max(y_end, it.y_end);
  }
  if (x_end == 0) x_end = 1;
  y_end = round_above(y_end);
  const double bottom = top + line_plot_height;
  std::string svg = svg_begin(bottom + axis_height, chart.title);
  svg += x_axis(bottom, 0, x_end, chart.x_label) + y_axis(y_end, chart.y_label);
  for (size_t i = 0; i < chart.blocks.size(); ++i) {
    const Block& it = chart.blocks[i];
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
        "fill-opacity=\"0.8\" stroke=\"#888\" stroke-width=\"0.5\"><title>{}</title></rect>\n",
        left + it.x_begin / x_end * plot_width, bottom - it.y_end / y_end * line_plot_height,
        (it.x_end - it.x_begin) / x_end * plot_width,
        (it.y_end - it.y_begin) / y_end * line_plot_height, line_colours[i % line_colours.size()],
        html_text(it.name));
  }
  return svg + "</svg>\n";
}

std::string svg_of(const TimeChart& chart) {
  double end = 0;
  for (const TimeRow& row : chart.rows) {
    for (const TimeBar& bar : row.bars) end = std::max(end, bar.end);
  }
  if (end == 0) end = 1;
  const double bottom = top + row_height * static_cast<double>(chart.rows.size());

  std::string svg = svg_begin(bottom + axis_height, chart.title);
  svg += x_axis(bottom, 0, end, chart.x_label);
  double y = top;
  for (const TimeRow& row : chart.rows) {
    svg += text_at(left - 8, y + row_height * 0.65, "end", row.name);
    const std::vector<TimeBar> joined = in_pixels(row.bars, end, chart.colours.size());
    for (const TimeBar& bar : joined) {
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
          left + bar.begin / end * plot_width, y + 2,
          std::max((bar.end - bar.begin) / end * plot_width, 0.3), row_height - 4,
          chart.colours[bar.colour].second);
    }
    y += row_height;
  }
  for (size_t i = 0; i < chart.colours.size(); ++i) {
    const double legend_y = top + 4 + 18 * static_cast<double>(i);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" fill=\"{}\"/>\n",
                       left + plot_width + 16, legend_y, chart.colours[i].second);
    svg += text_at(left + plot_width + 36, legend_y + 9, "start", chart.colours[i].first);
  }
  return svg + "</svg>\n";
}

}  // namespace weightpager::tools
