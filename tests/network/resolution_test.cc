// Networks for pictures of other sizes: as if the .cfg had been edited, or refused.
#include "runtime/network/resolution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <string>

#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"

namespace weightpager::network {
namespace {

std::string edited(const std::string& text, const Resolution& resolution) {
  const std::string high = std::regex_replace(text, std::regex("(\n)height=[0-9]+"),
                                              fmt::format("$1height={}", resolution.height));
  return std::regex_replace(high, std::regex("(\n)width=[0-9]+"),
                            fmt::format("$1width={}", resolution.width));
}

std::string shapes(const Network& network) {
  std::string text;
  for (const Layer& layer : network.layers) {
    for (const Shape& it : {layer.input, layer.output})
      text += fmt::format("{}x{}x{} ", it.channels, it.height, it.width);
    text += fmt::format("{} {}\n", section_name(layer.operation), layer.weights());
  }
  return text;
}

void expect_refused(const std::string& text, const Resolution& resolution,
                    const std::string& message, const std::string& hint) {
  const auto network = network_at(text, "net.cfg", resolution);
  ASSERT_FALSE(network) << text;
  EXPECT_EQ(network.error().message, message);
  EXPECT_NE(network.error().hint.find(hint), std::string::npos) << network.error().hint;
}

// Every size that is taken gives the network of the edited file; a size that the edited file cannot
// have is refused.
TEST(Resolution, IsThatOfTheEditedFile) {
  std::mt19937 random(1);
  size_t taken = 0;
  size_t refused = 0;
  for (const char* const name : {"yolov3-tiny", "yolov4", "resnet18", "squeezenet", "vgg16"}) {
    const auto text = make_description(name);
    ASSERT_TRUE(text);
    const auto own = parse_network(*text, name);
    ASSERT_TRUE(own);
    for (int i = 0; i < 12; ++i) {
      const uint32_t grain = i % 2 == 0 ? 32 : 1;
      std::uniform_int_distribution<uint32_t> steps(1, 600 / grain);
      const Resolution resolution = {.height = steps(random) * grain,
                                     .width = steps(random) * grain};
      const auto resized = network_at(*text, name, resolution);
      const auto expected = parse_network(edited(*text, resolution), name);
      ++(resized ? taken : refused);
      if (!resized) {
        EXPECT_TRUE(!expected || expected->weights_file_bytes() != own->weights_file_bytes() ||
                    std::string(name).starts_with("yolo"))
            << resized.error().message;
        continue;
      }
      ASSERT_TRUE(expected) << expected.error().message;
      EXPECT_EQ(shapes(*resized), shapes(*expected));
      EXPECT_EQ(resized->weights_file_bytes(), own->weights_file_bytes());
    }
  }
  EXPECT_GE(taken, 15u);
  EXPECT_GE(refused, 15u);
}

TEST(Resolution, OwnSizeChangesNothing) {
  for (const std::string& name : described_networks()) {
    const auto text = make_description(name);
    ASSERT_TRUE(text);
    const auto own = parse_network(*text, name);
    ASSERT_TRUE(own);
    const auto same = network_at(*text, name, {own->input.height, own->input.width});
    ASSERT_TRUE(same) << same.error().message;
    EXPECT_EQ(shapes(*same), shapes(*own));
  }
}

const std::string square = "[net]\nheight=32\nwidth=32\nchannels=3\n";
const std::string halving = "[convolutional]\nfilters=4\nsize=3\nstride=2\npad=1\n";

TEST(Resolution, RefusesWeightsOfOneSize) {
  expect_refused(
      square + halving + "[connected]\noutput=10\n", {48, 32},
      "net.cfg for 32 x 48: layer 1 (connected, line 10): expected 10240 weights, as for "
      "an input of 32 x 32, found 15360",
      "pictures of one size only");
}

TEST(Resolution, RefusesLayersThatNoLongerFit) {
  expect_refused(square + halving + halving + "[upsample]\nstride=2\n[route]\nlayers=-1,0\n",
                 {30, 32},
                 "net.cfg for 32 x 30, line 18: expected layers of 16 x 16, as layer 2 is, found "
                 "layer 0 of 16 x 15",
                 "from their own, 32 x 32, by multiples of 32 or 64");
}

TEST(Resolution, RefusesSumsOfShapesThatWereEqual) {
  const std::string sum = square + halving + halving + "[upsample]\nstride=2\n[shortcut]\nfrom=0\n";
  EXPECT_TRUE(network_at(sum, "net.cfg", {48, 64}));
  expect_refused(sum, {30, 30},
                 "net.cfg for 30 x 30: layer 3 (shortcut, line 17): expected layers of equal size "
                 "to add, found 16 x 16 and 15 x 15",
                 "multiples of 32 or 64");
}

TEST(Resolution, ChecksTheFileInItsOwnSizeFirst) {
  const std::string wrong = "[net]\nheight=32\nwidth=32\nchannels=3\ninputs=7\n" + halving;
  const auto network = network_at(wrong, "net.cfg", {64, 64});
  ASSERT_FALSE(network);
  EXPECT_NE(network.error().message.find("net.cfg, line 5"), std::string::npos)
      << network.error().message;
  EXPECT_TRUE(network_at("[net]\nheight=32\nwidth=32\nchannels=3\ninputs=3072\n" + halving,
                         "net.cfg", {64, 64}));
  // More numbers than an input may have.
  EXPECT_FALSE(network_at(square + halving, "net.cfg", {1 << 20, 1 << 20}));
}

}  // namespace
}  // namespace weightpager::network
