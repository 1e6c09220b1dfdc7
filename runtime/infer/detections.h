// Reads a network's outputs for a picture: boxes of detectors, classes of classifiers and of maps.
//
// A detector's yolo layers give some thousands of boxes. Most of them are unlikely, and the likely
// ones come many times over. As in Darknet, boxes below a threshold are dropped, and of boxes of
// one class that cover each other only the likeliest stays. Places in the network's input become
// places in the picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/infer/image.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

/// Centre and size, as shares of the picture's width and height.
struct Box {
  float x = 0;
  float y = 0;
  float width = 0;
  float height = 0;
};

/// The area that two boxes have in common, as a share of the area that they cover together.
float overlap(const Box& left, const Box& right);

struct Detection {
  Box box;
  uint32_t class_index = 0;
  /// The probability that there is an object, times the probability that it is of this class.
  float probability = 0;
};

struct DetectionLimits {
  float probability_min = 0.5f;
  /// If two boxes of a class overlap by more than this, the less probable one is dropped. If the
  /// network has counts_distance, the boxes' distance is subtracted from their overlap.
  float overlap_max = 0.45f;
};

/// The detections from the outputs of all yolo layers, the most probable first. The network's input
/// was the picture, letterboxed. A box for which several classes are probable comes once for each
/// class.
std::vector<Detection> find_detections(const network::Network& network,
                                       const memory::Activations& activations, Size picture,
                                       const DetectionLimits& limits);

struct Guess {
  uint32_t class_index = 0;
  float probability = 0;
};

/// The `count` largest of a classifier's outputs, the largest first. Of equal outputs the one with
/// the smaller index comes first.
std::vector<Guess> best_guesses(std::span<const float> probabilities, uint32_t count);

/// The same for a network's last output. Of a map that has the classes as channels (segmentation),
/// a class's probability is the share of the pixels at which its value is the largest.
std::vector<Guess> best_guesses(std::span<const float> output, const network::Shape& shape,
                                uint32_t count);

}  // namespace weightpager::infer
