// Boxes and classes from outputs that are made up.
#include "runtime/infer/detections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weightpager::infer {
namespace {

constexpr network::Shape grid{2 * 7, 4, 4};

// Two anchors per cell, two classes; the network's input is 64 × 64.
network::Network detector(bool has_new_coordinates) {
  network::Layer layer;
  layer.operation = network::Yolo{.classes = 2,
                                  .anchors = {8, 8, 16, 8, 32, 64},
                                  .mask = {1, 2},
                                  .has_new_coordinates = has_new_coordinates};
  layer.inputs = {network::network_input};
  layer.input = grid;
  layer.output = grid;
  return {.input = {3, 64, 64}, .layers = {layer}};
}

struct Cell {
  uint32_t anchor = 0;
  uint32_t row = 0;
  uint32_t column = 0;
  // x, y, width, height, objectness, class 0, class 1.
  std::vector<float> entries;
};

std::vector<Detection> detections_of(const network::Network& network,
                                     const std::vector<Cell>& cells, Size picture = {64, 64}) {
  auto activations = memory::Activations::make(network);
  EXPECT_TRUE(activations);
  float* output = activations->output(0);
  std::fill_n(output, grid.elements(), 0.0f);
  for (const Cell& cell : cells) {
    for (uint32_t entry = 0; entry < 7; ++entry) {
      output[((cell.anchor * 7 + entry) * 4 + cell.row) * 4 + cell.column] = cell.entries[entry];
    }
  }
  return find_detections(network, *activations, picture, {});
}

TEST(Detections, AreBoxesAroundCells) {
  const auto found = detections_of(detector(false),
                                   {{1, 2, 3, {0.5f, 0.25f, std::log(0.5f), 0, 0.8f, 0.1f, 0.9f}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].class_index, 1u);
  EXPECT_FLOAT_EQ(found[0].probability, 0.72f);
  EXPECT_FLOAT_EQ(found[0].box.x, 3.5f / 4);
  EXPECT_FLOAT_EQ(found[0].box.y, 2.25f / 4);
  EXPECT_FLOAT_EQ(found[0].box.width, 0.5f * 32 / 64);
  EXPECT_FLOAT_EQ(found[0].box.height, 1);
}

TEST(Detections, NewCoordinatesSquareTheSize) {
  const auto found = detections_of(detector(true), {{0, 0, 0, {0.5f, 0.5f, 0.5f, 1, 1, 1, 0}}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found[0].box.width, 16.0f / 64);
  EXPECT_FLOAT_EQ(found[0].box.height, 4 * 8.0f / 64);
}

TEST(Detections, PlacesAreThoseInThePicture) {
  // Twice as wide as high: the letterbox shows it in rows 16 to 48 of 64.
  const auto found = detections_of(detector(false), {{0, 1, 2, {0, 0, 0, 0, 1, 1, 0}}}, {200, 100});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found[0].box.x, 0.5f);
  EXPECT_FLOAT_EQ(found[0].box.y, 0);
  EXPECT_FLOAT_EQ(found[0].box.width, 0.25f);
  EXPECT_FLOAT_EQ(found[0].box.height, 0.25f);
}

TEST(Detections, OfOverlappingBoxesOfAClassTheLikeliestStays) {
  const Cell likely{0, 1, 1, {0.5f, 0.5f, 0, 0, 0.9f, 1, 0}};
  const Cell repetition{0, 1, 2, {-0.4f, 0.5f, 0, 0, 0.8f, 1, 0}};
  const Cell other_class{0, 1, 0, {1.4f, 0.5f, 0, 0, 0.7f, 0, 1}};
  const Cell elsewhere{0, 3, 1, {0.5f, 0.5f, 0, 0, 0.6f, 1, 0}};
  const auto found = detections_of(detector(false), {elsewhere, repetition, other_class, likely});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FLOAT_EQ(found[0].probability, 0.9f);
  EXPECT_FLOAT_EQ(found[1].probability, 0.7f);
  EXPECT_FLOAT_EQ(found[2].probability, 0.6f);
}

// Expected: Darknet's box_diounms, by hand. Two boxes of 1/8 × 1/8 whose centres lie 0.025 apart:
// they overlap by 2/3; all around both is 0.15 × 0.125, its diagonal squared 0.038125, so the
// distance counts (0.025² / 0.038125)^e: 0.0850 for e = 0.6, 0.6625 for e = 0.1.
TEST(Detections, DistanceCountsWhereTheNetworkSaysSo) {
  network::Network network = detector(false);
  auto& yolo = std::get<network::Yolo>(network.layers[0].operation);
  const float size = std::log(0.5f);  // of an anchor of 16 × 8
  const Cell likely{0, 1, 1, {0.5f, 0.5f, size, 0, 0.9f, 1, 0}};
  const Cell repetition{0, 1, 2, {-0.4f, 0.5f, size, 0, 0.8f, 1, 0}};
  EXPECT_EQ(detections_of(network, {likely, repetition}).size(), 1u);
  yolo.counts_distance = true;
  yolo.distance_exponent = 0.6f;
  EXPECT_EQ(detections_of(network, {likely, repetition}).size(), 1u);
  yolo.distance_exponent = 0.1f;
  EXPECT_EQ(detections_of(network, {likely, repetition}).size(), 2u);
}

TEST(Detections, ABoxThatWasRemovedRemovesNoOther) {
  // A row of three: the middle one overlaps both, the outer two not each other by much.
  const Cell first{0, 1, 1, {0, 0, 0, 0, 0.9f, 1, 0}};
  const Cell middle{0, 1, 2, {-0.7f, 0, 0, 0, 0.8f, 1, 0}};
  const Cell last{0, 1, 3, {-1.4f, 0, 0, 0, 0.7f, 1, 0}};
  const auto found = detections_of(detector(false), {first, middle, last});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[1].probability, 0.7f);
}

TEST(Detections, OneBoxMayBeOfTwoClasses) {
  EXPECT_EQ(detections_of(detector(false), {{0, 1, 1, {0, 0, 0, 0, 1, 0.9f, 0.8f}}}).size(), 2u);
}

TEST(Detections, WhatIsNoNumberIsNoDetection) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(detections_of(detector(false), {{0, 1, 1, {0, 0, 0, 0, nan, 1, 1}},
                                              {0, 1, 2, {0, 0, 0, 0, 1, nan, 0}}})
                  .empty());
}

TEST(Overlap, IsTheCommonShare) {
  EXPECT_FLOAT_EQ(overlap({0.5f, 0.5f, 1, 1}, {0.5f, 0.5f, 0.5f, 1}), 0.5f);
  EXPECT_FLOAT_EQ(overlap({0, 0, 1, 1}, {3, 0, 1, 1}), 0);
}

TEST(BestGuesses, AreTheLargest) {
  const std::vector<float> probabilities{0.1f, 0.4f, 0.05f, 0.4f};
  const auto guesses = best_guesses(probabilities, 3);
  ASSERT_EQ(guesses.size(), 3u);
  EXPECT_EQ(guesses[0].class_index, 1u);
  EXPECT_EQ(guesses[1].class_index, 3u);
  EXPECT_EQ(guesses[2].class_index, 0u);
  EXPECT_EQ(best_guesses(probabilities, 9).size(), 4u);
}

TEST(BestGuesses, OfAMapAreSharesOfPixels) {
  // Two by two pixels of three classes: classes 2, 0, 2, 2 are the largest.
  const std::vector<float> map = {0, 9, 0, 1,  //
                                  0, 8, 1, 0,  //
                                  1, 7, 2, 2};
  const auto guesses = best_guesses(map, {.channels = 3, .height = 2, .width = 2}, 3);
  ASSERT_EQ(guesses.size(), 3u);
  EXPECT_EQ(guesses[0].class_index, 2u);
  EXPECT_EQ(guesses[0].probability, 0.75f);
  EXPECT_EQ(guesses[1].class_index, 0u);
  EXPECT_EQ(guesses[1].probability, 0.25f);
  EXPECT_EQ(guesses[2].probability, 0);
  EXPECT_EQ(best_guesses(map, {.channels = 12, .height = 1, .width = 1}, 1)[0].class_index, 1u);
}

}  // namespace
}  // namespace weightpager::infer
