#include "tools/report/svg_chart.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace weightpager::tools {
namespace {

// How the lines of a chart are drawn: what stands in the picture behind the places of their points.
std::vector<std::string> styles_of(const LineChart& chart) {
  std::vector<std::string> styles;
  std::istringstream svg(svg_of(chart));
  for (std::string element; std::getline(svg, element);) {
    if (element.starts_with("<polyline")) styles.push_back(element.substr(element.find("stroke=")));
  }
  return styles;
}

TEST(LineChart, LinesDifferWhenThereAreMoreThanColours) {
  LineChart chart;
  for (int i = 0; i < 25; ++i) chart.lines.push_back({std::to_string(i), {{0.0, 1.0 * i}}});
  chart.lines.push_back({"the bound", {{0.0, 0.0}}, true});
  const std::vector<std::string> styles = styles_of(chart);
  ASSERT_EQ(styles.size(), 26u);
  EXPECT_EQ(std::set(styles.begin(), styles.end()).size(), styles.size());
  EXPECT_EQ(styles.front().find("dash"), std::string::npos) << styles.front();
}

}  // namespace
}  // namespace weightpager::tools
