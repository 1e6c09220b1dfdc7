// Parts that charts share: the frame, axes with round numbers, text in lines, legends.
//
// Lengths are in pixels of a picture that is svg_width wide, from its upper left corner. Every
// function returns its part as SVG.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weightpager::tools::svg {

inline constexpr double svg_width = 900;
/// Where the plot begins. To its right there is room for a legend.
inline constexpr double left = 110;
inline constexpr double top = 36;
inline constexpr double plot_width = svg_width - left - 180;
/// Of all plots but those whose rows say it.
inline constexpr double plot_height = 300;
/// Below a plot: the numbers of its x axis, and the label.
inline constexpr double axis_height = 46;
inline constexpr double line_height = 15;
/// About what a letter takes; the fonts of readers differ.
inline constexpr double letter_width = 6.8;

inline constexpr const char* axis_style = "stroke=\"#888\"";

/// `anchor`: "start", "middle" or "end", which of the text lies at `x`.
std::string text_at(double x, double y, const char* anchor, const std::string& text);
/// The lines of a text, one below the other; `y` is the first one's.
std::string lines_at(double x, double y, const char* anchor, const std::vector<std::string>& lines);
std::string line_from(double x1, double y1, double x2, double y2, const char* style);
std::string rect_at(double x, double y, double width, double height, const char* colour);

/// Cuts a text at spaces into lines that are not wider than `width_max`, but for single words.
std::vector<std::string> in_lines(const std::string& text, double width_max);

/// The picture's beginning, with its title; "</svg>" ends it.
std::string svg_begin(double height, const std::string& title);

/// The least of 1, 2 and 5 times a power of ten that cuts `span` into at most `parts_max` parts.
double round_step(double span, int parts_max);

/// `begin` and `end` are where the plot ends, and need not be round.
std::string x_axis(double y, double begin, double end, const std::string& label);

/// An axis from 0 to a round number at or above `most`.
struct UpwardAxis {
  explicit UpwardAxis(double most) {
    constexpr int parts_max = 6;
    if (most > 0) step = round_step(most, parts_max);
    parts = std::max(1, static_cast<int>(std::ceil(most / step - 1e-6)));
  }
  double end() const { return step * parts; }
  double y_of(double value) const { return top + plot_height * (1 - value / end()); }

  double step = 1;
  int parts = 1;
};

/// With a line across the plot at each number.
std::string y_axis(const UpwardAxis& axis, const std::string& label);

/// Names beside the plot, from the top downwards.
class SideLegend {
 public:
  /// Where the next name's sign stands: from `sign_begin` to `sign_end`, with its middle here.
  double y() const { return y_; }
  static constexpr double sign_begin = left + plot_width + 16;
  static constexpr double sign_end = sign_begin + 24;

  void add(const std::string& sign, const std::string& name) {
    constexpr double text_begin = sign_end + 6;
    const std::vector<std::string> lines = in_lines(name, svg_width - text_begin - 4);
    svg_ += sign + lines_at(text_begin, y_ + 4, "start", lines);
    y_ += step + line_height * static_cast<double>(lines.size() - 1);
  }

  const std::string& svg() const { return svg_; }
  /// The height of a picture that the plot and its axis need `least` of.
  double height(double least) const { return std::max(least, y_); }

 private:
  static constexpr double step = 18;

  double y_ = top + 10;
  std::string svg_;
};

struct LegendBelow {
  std::string svg;
  /// Where the last row ends.
  double end = 0;
};
/// Names and colours below a plot, side by side in rows; `y` is where they begin.
LegendBelow legend_below(double y, const std::vector<std::pair<std::string, std::string>>& colours);

}  // namespace weightpager::tools::svg
