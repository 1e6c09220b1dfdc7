// What a network says about a picture: boxes of detectors, classes of classifiers.
//
// A detector's yolo layers give some thousands of boxes, most of them unlikely, the likely ones
// many times over. As in Darknet: boxes below a threshold go, of boxes of one class that cover each
// other the likeliest stays, and places in the network's input become places in the picture.
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

/// What two boxes have in common, as a share of what they cover together.
float overlap(const Box& left, const Box& right);

struct Detection {
  Box box;
  uint32_t class_index = 0;
  /// That there is something, times that it is of this class.
  float probability = 0;
};

struct DetectionLimits {
  float probability_min = 0.5f;
  /// Of two boxes of a class that overlap by more (less their distance, if the network has
  /// counts_distance), the less probable one goes.
  float overlap_max = 0.45f;
};

/// From the outputs of all yolo layers, the most probable first. The network's input was the
/// picture, letterboxed. A place that several classes are probable for is there once for each.
std::vector<Detection> find_detections(const network::Network& network,
                                       const memory::Activations& activations, Size picture,
                                       const DetectionLimits& limits);

struct Guess {
  uint32_t class_index = 0;
  float probability = 0;
};

/// The `count` largest of a classifier's outputs, the largest first; of equal ones the first.
std::vector<Guess> best_guesses(std::span<const float> probabilities, uint32_t count);

}  // namespace weightpager::infer
