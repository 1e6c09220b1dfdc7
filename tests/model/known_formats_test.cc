// Every row of the table: what follows from its name and its ending.
#include "pager/model/known_formats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

TEST(KnownFormats, FormatsAreNamedAsTheirRows) {
  for (const KnownFormat& known : known_formats())
    EXPECT_STREQ(format_name(known.format), known.name);
  EXPECT_STREQ(format_name(Format::plain), "plain");
}

TEST(KnownFormats, EndingsAreFoundInAnyCase) {
  for (const KnownFormat& known : known_formats()) {
    if (known.ending.empty()) continue;
    const std::string path = "/models/a" + std::string(known.ending);
    EXPECT_EQ(format_by_ending(path), &known);
    EXPECT_EQ(format_by_ending(in_capitals(path)), &known);
    EXPECT_EQ(format_by_ending(path + ".txt"), nullptr);
    EXPECT_EQ(format_by_ending(known.ending.substr(1)), nullptr);
  }
}

TEST(KnownFormats, NamesThatPromiseAnotherContentAreRefusedInAnyCase) {
  const TemporaryDirectory directory;
  for (const KnownFormat& known : known_formats()) {
    if (known.ending.empty()) continue;
    const std::string name = "a" + std::string(known.ending);
    for (const std::string& either : {name, in_capitals(name)}) {
      const std::string path = directory.write(either, "<!DOCTYPE html><html>");
      const Result<Model> model = open_model(path);
      ASSERT_FALSE(model) << path;
      EXPECT_EQ(model.error().message, fmt::format("{}, byte 0: expected {}, found {}", path,
                                                   known.start, "'<!DOCTYPE html><'"));
    }
  }
}

}  // namespace
}  // namespace weightpager::model
