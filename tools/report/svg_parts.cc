#include "tools/report/svg_parts.h"

#include <fmt/format.h>

#include <cstdint>
#include <sstream>

#include "tools/report/html_text.h"

namespace weightpager::tools::svg {
namespace {

constexpr const char* grid_style = "stroke=\"#8884\"";

/// Ten digits: more show how sums of binary fractions are rounded.
std::string tick_text(double value) { return fmt::format("{:.10g}", value); }

}  // namespace

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
             svg_width, height, html_text(title)) +
         text_at(left, 20, "start", title);
}

double round_step(double span, int parts_max) {
  const double least = span / parts_max;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (least <= step * power) return step * power;
  }
  return 10 * power;
}

std::string line_from(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string x_axis(double y, double begin, double end, const std::string& label) {
  constexpr int parts_max = 8;
  std::string svg = line_from(left, y, left + plot_width, y, axis_style);
  const double step = round_step(end - begin, parts_max);
  // An end that is a round number but for how fractions are rounded has its number, too.
  const double slack = 1e-6;
  const auto first = static_cast<int64_t>(std::ceil(begin / step - slack));
  const auto last = static_cast<int64_t>(std::floor(end / step + slack));
  for (int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    const double x = left + (value - begin) / (end - begin) * plot_width;
    svg += line_from(x, y, x, y + 4, axis_style) + text_at(x, y + 16, "middle", tick_text(value));
  }
  return svg + text_at(left + plot_width / 2, y + 36, "middle", label);
}

std::string y_axis(const UpwardAxis& axis, const std::string& label) {
  std::string svg;
  for (int i = 0; i <= axis.parts; ++i) {
    const double y = axis.y_of(i * axis.step);
    svg += line_from(left, y, left + plot_width, y, grid_style) +
           text_at(left - 8, y + 4, "end", tick_text(i * axis.step));
  }
  return svg + fmt::format("<g transform=\"rotate(-90)\">{}</g>\n",
                           text_at(-(top + plot_height / 2), 40, "middle", label));
}

std::string rect_at(double x, double y, double width, double height, const char* colour) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", x, y,
      width, height, colour);
}

std::vector<std::string> in_lines(const std::string& text, double width_max) {
  const auto letters_max = static_cast<size_t>(std::max(1.0, width_max / letter_width));
  std::vector<std::string> lines = {""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= letters_max) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string lines_at(double x, double y, const char* anchor,
                     const std::vector<std::string>& lines) {
  std::string svg;
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += text_at(x, y + line_height * static_cast<double>(i), anchor, lines[i]);
  }
  return svg;
}

LegendBelow legend_below(double y,
                         const std::vector<std::pair<std::string, std::string>>& colours) {
  constexpr double step = 18;
  constexpr double sign_width = 22;
  size_t longest = 0;
  for (const auto& [name, colour] : colours) longest = std::max(longest, name.size());
  const double entry_width = sign_width + letter_width * static_cast<double>(longest) + 14;
  const auto columns =
      static_cast<size_t>(std::max(1.0, std::floor((svg_width - left) / entry_width)));
  LegendBelow legend = {"", y};
  for (size_t i = 0; i < colours.size(); ++i) {
    const double x = left + entry_width * static_cast<double>(i % columns);
    const size_t row = i / columns;
    const double entry_y = y + step * static_cast<double>(row);
    legend.svg += rect_at(x, entry_y, 14, 10, colours[i].second.c_str()) +
                  text_at(x + sign_width, entry_y + 9, "start", colours[i].first);
    legend.end = entry_y + step;
  }
  return legend;
}

}  // namespace weightpager::tools::svg
