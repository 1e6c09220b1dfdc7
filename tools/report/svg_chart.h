// Two kinds of pictures for reports, as SVG text: lines over numbers, and rows of bars over time.
//
// No scripts, no fonts and no files beside: a report stays readable wherever it is copied to.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weightpager::tools {

struct ChartLine {
  std::string name;
  /// x, y; in ascending x.
  std::vector<std::pair<double, double>> points;
  /// Not one among others, but what they are measured against.
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
  /// A name for the legend, a colour.
  std::vector<std::pair<std::string, std::string>> colours;
  std::vector<TimeRow> rows;
};

/// As many bars as there are pixels at most, however many are given.
std::string svg_of(const TimeChart& chart);

/// With &, < and > as entities.
std::string html_text(const std::string& text);

}  // namespace weightpager::tools
