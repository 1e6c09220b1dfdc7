// Pictures for reports, as SVG text: lines over numbers, rows of bars over time, blocks in a plane,
// and groups of bars.
//
// The SVG uses no scripts, no fonts and no other files, so a report stays readable wherever it is
// copied. Numbers stand at round places of the axes. Nothing is clipped, however many names a
// legend has: the picture grows.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weightpager::tools {

struct ChartLine {
  std::string name;
  /// (x, y), in ascending order of x.
  std::vector<std::pair<double, double>> points;
  /// Marks the line that the others are compared with.
  bool is_dashed = false;
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<ChartLine> lines;
};

/// The y axis begins at 0.
std::string svg_of(const LineChart& chart);

struct TimeBar {
  double begin = 0;
  double end = 0;
  /// An index into TimeChart::colours.
  size_t colour = 0;
};

struct TimeRow {
  std::string name;
  std::vector<TimeBar> bars;
};

struct TimeChart {
  std::string title;
  std::string x_label;
  /// For each colour, its name in the legend and the colour itself.
  std::vector<std::pair<std::string, std::string>> colours;
  std::vector<TimeRow> rows;
};

/// Draws at most one bar for each pixel of a row, however many bars are given. The legend lies
/// below the axis.
std::string svg_of(const TimeChart& chart);

/// A rectangle between two places of each axis.
struct Block {
  double x_begin = 0;
  double x_end = 0;
  double y_begin = 0;
  double y_end = 0;
  /// Shown where the pointer is.
  std::string name;
};

struct BlockChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Block> blocks;
};

/// Both axes begin at 0. Blocks may not overlap.
std::string svg_of(const BlockChart& chart);

struct BarValue {
  double value = 0;
  /// Where the whisker begins and ends; without both there is none.
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
};

struct BarGroup {
  /// Below the group. It goes on in further lines where it is too long for one.
  std::string name;
  /// By series. Empty: this bar is missing, and a dash stands in its place.
  std::vector<std::optional<BarValue>> bars;
};

struct BarChart {
  std::string title;
  std::string y_label;
  /// Their names stand in the legend; of a single series there is none.
  std::vector<std::string> series;
  /// From left to right.
  std::vector<BarGroup> groups;
};

/// Values are at least 0. The y axis begins at 0; each bar's value stands above it.
std::string svg_of(const BarChart& chart);

}  // namespace weightpager::tools
