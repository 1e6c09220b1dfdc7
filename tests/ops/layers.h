// Layers by themselves, weights for them, and how far results are apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/network/network.h"
#include "tests/ops/naive.h"

namespace weightpager::ops {

inline network::Layer of_operation(network::Operation operation, const network::Shape& input,
                                   const network::Shape& output,
                                   std::vector<uint32_t> inputs = {network::network_input}) {
  network::Layer layer;
  layer.operation = std::move(operation);
  layer.inputs = std::move(inputs);
  layer.input = input;
  layer.output = output;
  return layer;
}

inline network::Layer convolutional(const network::Shape& input, const network::Convolutional& it) {
  const auto side = [&](uint32_t length) {
    return (length + 2 * it.padding - it.size) / it.stride + 1;
  };
  return of_operation(it, input, {it.filters, side(input.height), side(input.width)});
}

/// The largest difference, over the largest value that is expected; infinite if something is not a
/// number.
inline double relative_error(const naive::Values& expected, const naive::Values& found) {
  EXPECT_EQ(expected.size(), found.size());
  double difference = 0;
  double magnitude = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(found[i])) return INFINITY;
    difference = std::max(difference, std::abs(double{expected[i]} - found[i]));
    magnitude = std::max(magnitude, std::abs(double{expected[i]}));
  }
  return difference / magnitude;
}

struct Weights {
  naive::Values biases;
  // One float longer in front: weights need not be aligned to more than a float.
  naive::Values floats;

  explicit Weights(const network::Layer& layer)
      : biases(naive::random_values(layer.channels_with_bias(), 7)),
        floats(naive::random_values(layer.weights() + 1, 8,
                                    std::sqrt(3.0f * static_cast<float>(layer.output.channels) /
                                              static_cast<float>(layer.weights())))) {}
  const float* first() const { return floats.data() + 1; }
  naive::Values plain() const { return naive::Values(floats.begin() + 1, floats.end()); }
};

}  // namespace weightpager::ops
