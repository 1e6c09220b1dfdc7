#include "runtime/infer/detections.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weightpager::infer {
namespace {

// One yolo layer's output. Each anchor has x, y, width, height, objectness and the classes, and
// each of these is a plane of the grid.
class Grid {
 public:
  Grid(const network::Layer& layer, const network::Shape& network_input, const float* output)
      : yolo_(std::get<network::Yolo>(layer.operation)),
        width_(layer.output.width),
        height_(layer.output.height),
        network_input_(network_input),
        output_(output) {}

  void collect(float probability_min, std::vector<Detection>& found) const {
    for (uint32_t anchor = 0; anchor < yolo_.mask.size(); ++anchor) {
      for (uint32_t row = 0; row < height_; ++row) {
        for (uint32_t column = 0; column < width_; ++column) {
          const float objectness = entry(anchor, 4, row, column);
          if (!(objectness > probability_min)) continue;
          const Box box = box_of(anchor, row, column);
          for (uint32_t class_index = 0; class_index < yolo_.classes; ++class_index) {
            const float probability = objectness * entry(anchor, 5 + class_index, row, column);
            if (probability > probability_min) found.push_back({box, class_index, probability});
          }
        }
      }
    }
  }

 private:
  float entry(uint32_t anchor, uint32_t number, uint32_t row, uint32_t column) const {
    const uint64_t plane = uint64_t{anchor} * (5 + yolo_.classes) + number;
    return output_[(plane * height_ + row) * width_ + column];
  }

  // The box as shares of the network's input.
  Box box_of(uint32_t anchor, uint32_t row, uint32_t column) const {
    const auto size = [&](uint32_t number, float anchor_pixels, uint32_t input_pixels) {
      const float value = entry(anchor, number, row, column);
      const double factor =
          yolo_.has_new_coordinates ? double{value} * value * 4 : std::exp(double{value});
      return static_cast<float>(factor * anchor_pixels / input_pixels);
    };
    const size_t chosen = yolo_.mask[anchor];
    return {
        (static_cast<float>(column) + entry(anchor, 0, row, column)) / static_cast<float>(width_),
        (static_cast<float>(row) + entry(anchor, 1, row, column)) / static_cast<float>(height_),
        size(2, yolo_.anchors[2 * chosen], network_input_.width),
        size(3, yolo_.anchors[2 * chosen + 1], network_input_.height)};
  }

  const network::Yolo& yolo_;
  uint32_t width_;
  uint32_t height_;
  network::Shape network_input_;
  const float* output_;
};

// Along one axis: from a share of the letterbox to a share of the picture in its middle.
void leave_letterbox(uint32_t inner, uint32_t outer, float& centre, float& size) {
  const double margin = (outer - inner) / 2.0 / outer;
  const float share = static_cast<float>(inner) / static_cast<float>(outer);
  centre = static_cast<float>((centre - margin) / share);
  size *= static_cast<float>(outer) / static_cast<float>(inner);
}

float common_length(float left, float left_length, float right, float right_length) {
  const float begin = std::max(left - left_length / 2, right - right_length / 2);
  const float end = std::min(left + left_length / 2, right + right_length / 2);
  return std::max(0.0f, end - begin);
}

// The length from where the first of two intervals begins to where the last one ends.
float spanned_length(float left, float left_length, float right, float right_length) {
  const float begin = std::min(left - left_length / 2, right - right_length / 2);
  const float end = std::max(left + left_length / 2, right + right_length / 2);
  return end - begin;
}

// How much one box repeats the other, counted as the network wants it. Overlapping boxes whose
// centres lie apart are more likely to show two objects than one (distance IoU, Zheng et al. 2020).
float repetition(const Box& left, const Box& right, const network::Yolo& yolo) {
  const float common = overlap(left, right);
  if (!yolo.counts_distance) return common;
  const float diagonal = std::hypot(spanned_length(left.x, left.width, right.x, right.width),
                                    spanned_length(left.y, left.height, right.y, right.height));
  if (diagonal == 0) return common;
  const float apart = std::hypot(left.x - right.x, left.y - right.y) / diagonal;
  return common - std::pow(apart * apart, yolo.distance_exponent);
}

// `found` has the most probable first.
std::vector<Detection> without_repetitions(const std::vector<Detection>& found, float overlap_max,
                                           const network::Yolo& yolo) {
  std::vector<Detection> kept;
  for (const Detection& detection : found) {
    const bool is_repetition = std::any_of(kept.begin(), kept.end(), [&](const Detection& other) {
      return other.class_index == detection.class_index &&
             repetition(other.box, detection.box, yolo) > overlap_max;
    });
    if (!is_repetition) kept.push_back(detection);
  }
  return kept;
}

}  // namespace

float overlap(const Box& left, const Box& right) {
  const float common = common_length(left.x, left.width, right.x, right.width) *
                       common_length(left.y, left.height, right.y, right.height);
  return common / (left.width * left.height + right.width * right.height - common);
}

std::vector<Detection> find_detections(const network::Network& network,
                                       const memory::Activations& activations, Size picture,
                                       const DetectionLimits& limits) {
  std::vector<Detection> found;
  const network::Yolo* yolo = nullptr;
  for (uint32_t number = 0; number < network.layers.size(); ++number) {
    const network::Layer& layer = network.layers[number];
    if (!std::holds_alternative<network::Yolo>(layer.operation)) continue;
    yolo = &std::get<network::Yolo>(layer.operation);
    Grid(layer, network.input, activations.output(number)).collect(limits.probability_min, found);
  }
  const Size inner = letterboxed(picture, {network.input.width, network.input.height});
  for (Detection& detection : found) {
    leave_letterbox(inner.width, network.input.width, detection.box.x, detection.box.width);
    leave_letterbox(inner.height, network.input.height, detection.box.y, detection.box.height);
  }
  std::stable_sort(found.begin(), found.end(), [](const Detection& left, const Detection& right) {
    return left.probability > right.probability;
  });
  // Darknet uses the settings of the last yolo layer for the boxes of all yolo layers.
  return yolo == nullptr ? found : without_repetitions(found, limits.overlap_max, *yolo);
}

std::vector<Guess> best_guesses(std::span<const float> probabilities, uint32_t count) {
  std::vector<uint32_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](uint32_t left, uint32_t right) {
    if (probabilities[left] != probabilities[right]) {
      return probabilities[left] > probabilities[right];
    }
    return left < right;
  });
  std::vector<Guess> guesses;
  for (auto it = order.begin(); it != end; ++it) guesses.push_back({*it, probabilities[*it]});
  return guesses;
}

std::vector<Guess> best_guesses(std::span<const float> output, const network::Shape& shape,
                                uint32_t count) {
  const size_t pixels = size_t{shape.height} * shape.width;
  if (pixels == 1) return best_guesses(output, count);
  std::vector<size_t> wins(shape.channels);
  for (size_t pixel = 0; pixel < pixels; ++pixel) {
    uint32_t largest = 0;
    for (uint32_t channel = 1; channel < shape.channels; ++channel) {
      if (output[channel * pixels + pixel] > output[largest * pixels + pixel]) largest = channel;
    }
    ++wins[largest];
  }
  std::vector<float> shares;
  for (const size_t it : wins)
    shares.push_back(static_cast<float>(it) / static_cast<float>(pixels));
  return best_guesses(shares, count);
}

}  // namespace weightpager::infer
