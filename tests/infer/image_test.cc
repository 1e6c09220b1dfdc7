// Pictures become a network's input as in Darknet; files that are no pictures become errors.
// (tests/ops/darknet_outputs.sh compares with Debian's Darknet itself.)
#include "runtime/infer/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/model/temporary_directory.h"

namespace weightpager::infer {
namespace {

Image grey(uint32_t width, uint32_t height, std::vector<float> values) {
  return {{1, height, width}, std::move(values)};
}

class Images : public testing::Test {
 protected:
  std::string write(const std::string& bytes) { return directory_.write("picture", bytes); }
  std::string error_of(const std::string& bytes) {
    const auto image = read_image(write(bytes), 3);
    return image ? "" : image.error().message;
  }

  model::TemporaryDirectory directory_;
};

TEST_F(Images, ColourIsSplitIntoPlanes) {
  const auto image = read_image(write(std::string("P6 2 1 255\n\xff\x00\x33\x00\x66\xcc", 17)), 3);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->shape, (network::Shape{3, 1, 2}));
  EXPECT_EQ(image->values, (std::vector<float>{1, 0, 0, 0.4f, 0.2f, 0.8f}));
}

TEST_F(Images, GreyBecomesColourIfTheNetworkWantsIt) {
  const std::string bytes("P5 1 2 255\n\x33\xff", 13);
  EXPECT_EQ(read_image(write(bytes), 1)->values, (std::vector<float>{0.2f, 1}));
  EXPECT_EQ(read_image(write(bytes), 3)->values, (std::vector<float>{0.2f, 1, 0.2f, 1, 0.2f, 1}));
}

TEST_F(Images, WhatIsNoPictureSaysSo) {
  EXPECT_NE(error_of("").find("no picture that can be read"), std::string::npos);
  EXPECT_NE(error_of("GIF87b and so on").find("no picture that can be read"), std::string::npos);
  EXPECT_NE(error_of("\x89PNG\r\n\x1a\n broken").find("no picture that can be read"),
            std::string::npos);
  EXPECT_NE(error_of("P6 2 2 255\nabc").find("no picture that can be read"), std::string::npos);
  EXPECT_NE(error_of("P6 100000 100000 255\n").find("100000 x 100000"), std::string::npos);
}

TEST_F(Images, WhatEndsInTheMiddleSaysSo) {
  const std::string head = "P6 30 30 255\n";
  const std::string values(30 * 30 * 3, 'v');
  EXPECT_EQ(error_of(head + values), "");
  for (const size_t bytes : {size_t{0}, size_t{100}, values.size() - 1}) {
    EXPECT_NE(error_of(head + values.substr(0, bytes)).find("ends in the middle"),
              std::string::npos)
        << bytes;
  }
}

TEST_F(Images, AMissingFileSaysSo) {
  const auto image = read_image(directory_.path("nothing.png"), 3);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().error_number, ENOENT);
  EXPECT_NE(image.error().message.find("nothing.png"), std::string::npos);
}

TEST_F(Images, OnlyGreyAndColourCanBeMade) {
  const auto image = read_image(write("P5 1 1 255\na"), 4);
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("4 channels"), std::string::npos);
}

TEST(Resize, IsLinearBetweenTheCorners) {
  const Image image = resize(grey(2, 2, {0, 1, 2, 3}), 3, 5);
  EXPECT_EQ(image.values,
            (std::vector<float>{0, 0.5f, 1, 0.5f, 1, 1.5f, 1, 1.5f, 2, 1.5f, 2, 2.5f, 2, 2.5f, 3}));
}

TEST(Resize, DropsPixelsWithoutAveraging) {
  EXPECT_EQ(resize(grey(5, 1, {0, 1, 2, 3, 4}), 3, 1).values, (std::vector<float>{0, 2, 4}));
}

TEST(Resize, OfOnePixelRepeatsIt) {
  EXPECT_EQ(resize(grey(1, 1, {7}), 3, 2).values, std::vector<float>(6, 7));
  EXPECT_EQ(resize(grey(2, 2, {1, 2, 3, 4}), 1, 1).values, (std::vector<float>{2}));
}

TEST(Letterbox, PutsGreyWhereThePictureDoesNotReach) {
  const Image image = letterbox(grey(2, 1, {1, 1}), 4, 5);
  const float grey_value = 0.5f;
  std::vector<float> expected(20, grey_value);
  std::fill(expected.begin() + 4, expected.begin() + 12, 1.0f);
  EXPECT_EQ(image.values, expected);
}

TEST(Letterbox, AThinLineKeepsAPixel) {
  EXPECT_EQ(letterboxed({1, 5000}, {416, 416}).width, 1u);
  EXPECT_EQ(letterboxed({5000, 1}, {416, 416}).height, 1u);
  const Size inner = letterboxed({640, 480}, {416, 416});
  EXPECT_EQ(inner.width, 416u);
  EXPECT_EQ(inner.height, 312u);
}

}  // namespace
}  // namespace weightpager::infer
