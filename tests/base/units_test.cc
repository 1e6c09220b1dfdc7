// Sizes as people write them.
#include "pager/base/units.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace weightpager {
namespace {

constexpr const char* examples = "examples: 512MiB, 1.5GiB, 8GiB; K, M, G, T are powers of 1024";

TEST(ParseSize, AcceptsWhatIsDocumented) {
  EXPECT_EQ(parse_size("4096", "--window"), 4096u);
  EXPECT_EQ(parse_size("0", "--window"), 0u);
  EXPECT_EQ(parse_size("64KiB", "--window"), 64 * KiB);
  EXPECT_EQ(parse_size("512M", "--window"), 512 * MiB);
  EXPECT_EQ(parse_size("512MiB", "--window"), 512 * MiB);
  EXPECT_EQ(parse_size("8G", "--window"), 8 * GiB);
  EXPECT_EQ(parse_size("1.5GiB", "--window"), 1536 * MiB);
  EXPECT_EQ(parse_size("0.1K", "--window"), 102u);
  EXPECT_EQ(parse_size("2TiB", "--window"), 2048 * GiB);
  EXPECT_EQ(parse_size("18446744073709551615", "--window"), ~uint64_t{0});
}

TEST(ParseSize, RefusesTheRestWithExamples) {
  const std::pair<const char*, const char*> refused[] = {
      {"8GB", "--window: '8GB' has a decimal unit; write 8GiB"},
      {"1.5MB", "--window: '1.5MB' has a decimal unit; write 1.5MiB"},
      {"1XB", "--window: '1XB' has the unknown unit 'XB'"},
      {"-1", "--window: '-1' is not a size"},
      {"+1", "--window: '+1' is not a size"},
      {"", "--window: '' is not a size"},
      {"nan", "--window: 'nan' is not a size"},
      {".5GiB", "--window: '.5GiB' is not a size"},
      {" 1GiB", "--window: ' 1GiB' is not a size"},
      {"1.5", "--window: '1.5' is not a whole number of bytes"},
      {"1.GiB", "--window: '1.GiB' has no digits after the point"},
      {"1GiBx", "--window: '1GiBx' has the unknown unit 'GiBx'"},
      {"1e9", "--window: '1e9' has the unknown unit 'e9'"},
      {"0x10", "--window: '0x10' has the unknown unit 'x10'"},
      {"1,5GiB", "--window: '1,5GiB' has the unknown unit ',5GiB'"},
      {"1.1.1G", "--window: '1.1.1G' has the unknown unit '.1G'"},
      {"0.1234567890123G", "--window: '0.1234567890123G' has too many digits after the point"},
      {"18446744073709551616", "--window: '18446744073709551616' is too large"},
      {"16777216TiB", "--window: '16777216TiB' is too large"},
  };
  for (const auto& [text, message] : refused) {
    const Result<uint64_t> size = parse_size(text, "--window");
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().message, message);
    EXPECT_EQ(size.error().hint, examples);
  }
}

TEST(ParseSize, ReadsEveryNumberOfBytes) {
  EXPECT_TRUE(rc::check([](uint64_t bytes) {
    RC_ASSERT(parse_size(fmt::format("{}", bytes), "size").value() == bytes);
  }));
}

TEST(ParseSize, MultipliesOrRefuses) {
  EXPECT_TRUE(rc::check([](uint64_t count) {
    const Result<uint64_t> size = parse_size(fmt::format("{}GiB", count), "size");
    const bool fits = count < (uint64_t{1} << 34);
    RC_ASSERT(size.has_value() == fits);
    if (fits) RC_ASSERT(*size == count * GiB);
  }));
}

TEST(ParseSize, NeverCrashesAndNeverReadsPart) {
  EXPECT_TRUE(rc::check([](const std::string& text) {
    const Result<uint64_t> size = parse_size(text, "size");
    if (!size) return;
    const bool starts_with_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
    RC_ASSERT(starts_with_digit);
  }));
}

TEST(FormatSize, ShowsOneDecimal) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1.0 KiB");
  EXPECT_EQ(format_size(512 * MiB), "512.0 MiB");
  EXPECT_EQ(format_size(1536 * MiB), "1.5 GiB");
  EXPECT_EQ(format_size(MiB - 1), "1.0 MiB");
  EXPECT_EQ(format_size(~uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace weightpager
