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

// ---- Places of texts and rectangles ----

struct Element {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  std::string text;
};

double number_after(const std::string& line, const std::string& word) {
  const size_t at = line.find(word);
  return at == std::string::npos ? 0 : std::stod(line.substr(at + word.size()));
}

/// All elements of a kind, "<text" or "<rect", that stand upright.
std::vector<Element> elements_of(const std::string& svg, const std::string& kind) {
  std::vector<Element> elements;
  std::istringstream lines(svg);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kind)) continue;
    const size_t begin = line.find('>') + 1;
    elements.push_back({number_after(line, " x=\""), number_after(line, " y=\""),
                        number_after(line, " width=\""), number_after(line, " height=\""),
                        line.substr(begin, line.find('<', begin) - begin)});
  }
  return elements;
}

double height_of(const std::string& svg) { return number_after(svg, "viewBox=\"0 0 900 "); }

/// The numbers in the row of the text that has `y`.
std::vector<std::string> texts_at(const std::string& svg, double y) {
  std::vector<std::string> texts;
  for (const Element& it : elements_of(svg, "<text")) {
    if (it.y == y) texts.push_back(it.text);
  }
  return texts;
}

using Words = std::vector<std::string>;
constexpr double numbers_y = 36 + 300 + 16;

TEST(Axes, NumbersAreRoundWhereverTheValuesEnd) {
  const auto numbers = [](double begin, double end) {
    return texts_at(svg_of(LineChart{"", "", "", {{"", {{begin, 1}, {end, 1}}}}}), numbers_y);
  };
  EXPECT_EQ(numbers(0, 152), (Words{"0", "20", "40", "60", "80", "100", "120", "140"}));
  EXPECT_EQ(numbers(13.7, 61.2), (Words{"20", "30", "40", "50", "60"}));
  EXPECT_EQ(numbers(0, 0.3), (Words{"0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}));
  EXPECT_EQ(numbers(0, 1e5), (Words{"0", "20000", "40000", "60000", "80000", "100000"}));
  EXPECT_EQ(numbers(-1, 1), (Words{"-1", "-0.5", "0", "0.5", "1"}));
  const TimeChart time = {"", "ms", {{"a", "#000"}}, {{"row", {{0, 7.3, 0}}}}};
  EXPECT_EQ(texts_at(svg_of(time), 36 + 22 + 16), (Words{"0", "1", "2", "3", "4", "5", "6", "7"}));
  const BlockChart blocks = {"", "", "", {{0, 66, 0, 5.742, ""}}};
  EXPECT_EQ(texts_at(svg_of(blocks), numbers_y), (Words{"0", "10", "20", "30", "40", "50", "60"}));
}

TEST(Axes, TheHighestValueIsWithinAPlotOfWhichItTakesMost) {
  for (double value = 0.013; value < 3e4; value *= 1.37) {
    const Element block =
        elements_of(svg_of(BlockChart{"", "", "", {{0, 1, 0, value, ""}}}), "<rect").front();
    EXPECT_GE(block.y, 36) << value;
    EXPECT_GT(block.height, 300 * 2 / 3) << value;
  }
}

TEST(TimeChart, LegendIsApartFromTheNumbersOfTheAxisAndWithinThePicture) {
  for (const size_t layers : {1u, 5u, 64u}) {
    TimeChart chart = {"", "ms", {}, {{"read", {{0, 10, 0}}}, {"copy", {}}, {"kernel", {}}}};
    for (size_t i = 0; i < layers; ++i) {
      chart.colours.emplace_back("layer " + std::to_string(i + 1), "#123456");
    }
    const std::string svg = svg_of(chart);
    size_t found = 0;
    const double label_y = 36 + 3 * 22 + 36;
    for (const Element& it : elements_of(svg, "<text")) {
      if (!it.text.starts_with("layer")) continue;
      ++found;
      EXPECT_GT(it.y - 10, label_y) << it.text;
      EXPECT_LT(it.y, height_of(svg)) << it.text;
      EXPECT_LT(it.x + 50, 900) << it.text;
    }
    EXPECT_EQ(found, layers);
  }
}

TEST(LineChart, PictureGrowsWithItsLegend) {
  LineChart chart;
  for (int i = 0; i < 40; ++i) chart.lines.push_back({"line", {{0, 1}}});
  const std::string svg = svg_of(chart);
  for (const Element& it : elements_of(svg, "<text")) EXPECT_LT(it.y, height_of(svg)) << it.text;
}

TEST(BarChart, BarsAreAsHighAsTheirValues) {
  const BarChart chart = {"MiB",
                          "MiB",
                          {"ours", "theirs"},
                          {{"first", {BarValue{5}, BarValue{10}}},
                           {"a network of a very long name that has no room below its group",
                            {std::nullopt, BarValue{7.5, 6.0, 12.0}}},
                           {"third", {BarValue{1}, BarValue{2}}}}};
  const std::string svg = svg_of(chart);
  std::vector<double> heights;
  std::vector<double> ends;
  for (const Element& it : elements_of(svg, "<rect")) {
    if (it.width == 14) continue;  // of the legend
    heights.push_back(it.height);
    ends.push_back(it.y + it.height);
  }
  // 12 is the highest, so the axis ends there.
  EXPECT_EQ(heights, (std::vector<double>{125, 250, 187.5, 25, 50}));
  EXPECT_EQ(ends, std::vector<double>(5, 336.0));
  std::set<std::string> texts;
  for (const Element& it : elements_of(svg, "<text")) {
    texts.insert(it.text);
    EXPECT_LT(it.y, height_of(svg)) << it.text;
  }
  for (const char* const text : {"5", "10", "7.5", "1", "2", "–", "ours", "theirs", "first"}) {
    EXPECT_TRUE(texts.contains(text)) << text;
  }
}

TEST(BarChart, ValuesThatAreWiderThanTheirBarsAreUpright) {
  BarChart chart = {"", "", {"a", "b", "c", "d", "e"}, {}};
  for (int i = 0; i < 6; ++i) {
    BarGroup group = {"group", {}};
    for (int k = 0; k < 5; ++k) group.bars.emplace_back(BarValue{1.23});
    chart.groups.push_back(group);
  }
  EXPECT_NE(svg_of(chart).find("rotate(-90 "), std::string::npos);
  chart.groups.resize(1);
  EXPECT_EQ(svg_of(chart).find("rotate(-90 "), std::string::npos);
}

TEST(BarChart, OfOneSeriesHasNoLegend) {
  const std::string svg = svg_of(BarChart{"", "", {"only"}, {{"group", {BarValue{1}}}}});
  EXPECT_EQ(svg.find("only"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::tools
