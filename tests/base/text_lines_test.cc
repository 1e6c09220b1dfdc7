// Lines of text files from any system.
#include "pager/base/text_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weightpager {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

TEST(TextLines, EndInAnyWay) {
  const std::vector<std::string> expected = {"a", "", "b"};
  for (const char* const text : {"a\n\nb\n", "a\r\n\r\nb\r\n", "a\r\rb\r", "a\n\r\nb"}) {
    EXPECT_EQ(lines_of(text), expected) << text;
  }
  EXPECT_EQ(lines_of(""), std::vector<std::string>());
  EXPECT_EQ(lines_of("\r"), std::vector<std::string>({""}));
}

TEST(TextLines, AByteOrderMarkIsNoText) {
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf"
                                    "a"),
            "a");
  EXPECT_EQ(without_byte_order_mark("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
}

}  // namespace
}  // namespace weightpager
