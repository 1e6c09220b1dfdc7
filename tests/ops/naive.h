// What each kind of layer computes, as loops that follow its definition and nothing else.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/network/network.h"

namespace weightpager::ops::naive {

using Values = std::vector<float>;

inline Values random_values(uint64_t count, uint32_t seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  Values values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

inline double activate(network::Activation activation, double x) {
  switch (activation) {
    case network::Activation::linear:
      return x;
    case network::Activation::leaky:
      return x > 0 ? x : 0.1 * x;
    case network::Activation::relu:
      return x > 0 ? x : 0;
    case network::Activation::logistic:
      return 1 / (1 + std::exp(-x));
    case network::Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case network::Activation::swish:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

inline Values convolutional(const network::Layer& layer, const Values& input, const Values& biases,
                            const Values& weights) {
  const auto& it = std::get<network::Convolutional>(layer.operation);
  const network::Shape& in = layer.input;
  const network::Shape& out = layer.output;
  const uint32_t group_inputs = in.channels / it.groups;
  const uint32_t group_outputs = out.channels / it.groups;
  Values result(out.elements());
  for (uint32_t channel = 0; channel < out.channels; ++channel) {
    for (uint32_t y = 0; y < out.height; ++y) {
      for (uint32_t x = 0; x < out.width; ++x) {
        double sum = biases[channel];
        for (uint32_t c = 0; c < group_inputs; ++c) {
          for (uint32_t ky = 0; ky < it.size; ++ky) {
            for (uint32_t kx = 0; kx < it.size; ++kx) {
              const int64_t iy = int64_t{y} * it.stride + ky - it.padding;
              const int64_t ix = int64_t{x} * it.stride + kx - it.padding;
              if (iy < 0 || ix < 0 || iy >= in.height || ix >= in.width) continue;
              const uint32_t from = channel / group_outputs * group_inputs + c;
              sum +=
                  double{input[(uint64_t{from} * in.height + iy) * in.width + ix]} *
                  weights[((uint64_t{channel} * group_inputs + c) * it.size + ky) * it.size + kx];
            }
          }
        }
        result[(uint64_t{channel} * out.height + y) * out.width + x] =
            static_cast<float>(activate(it.activation, sum));
      }
    }
  }
  return result;
}

inline Values max_pool(const network::Layer& layer, const Values& input) {
  const auto& it = std::get<network::MaxPool>(layer.operation);
  const network::Shape& in = layer.input;
  Values result;
  for (uint32_t channel = 0; channel < in.channels; ++channel) {
    for (uint32_t y = 0; y < layer.output.height; ++y) {
      for (uint32_t x = 0; x < layer.output.width; ++x) {
        float largest = -FLT_MAX;
        for (uint32_t ky = 0; ky < it.size; ++ky) {
          for (uint32_t kx = 0; kx < it.size; ++kx) {
            const int64_t iy = int64_t{y} * it.stride + ky - it.padding / 2;
            const int64_t ix = int64_t{x} * it.stride + kx - it.padding / 2;
            if (iy < 0 || ix < 0 || iy >= in.height || ix >= in.width) continue;
            largest =
                std::max(largest, input[(uint64_t{channel} * in.height + iy) * in.width + ix]);
          }
        }
        result.push_back(largest);
      }
    }
  }
  return result;
}

/// Darknet's: rows and columns of the larger are skipped, those of the smaller spread.
inline Values shortcut(const network::Layer& layer, const Values& first,
                       const network::Shape& added_shape, const Values& added) {
  const auto& it = std::get<network::Shortcut>(layer.operation);
  const network::Shape& out = layer.output;
  Values result = first;
  const uint32_t skip = std::max(1u, added_shape.width / out.width);
  const uint32_t spread = std::max(1u, out.width / added_shape.width);
  for (uint32_t channel = 0; channel < std::min(added_shape.channels, out.channels); ++channel) {
    for (uint32_t y = 0; y < std::min(added_shape.height, out.height); ++y) {
      for (uint32_t x = 0; x < std::min(added_shape.width, out.width); ++x) {
        result[(uint64_t{channel} * out.height + y * spread) * out.width + x * spread] +=
            added[(uint64_t{channel} * added_shape.height + y * skip) * added_shape.width +
                  x * skip];
      }
    }
  }
  for (float& value : result) value = static_cast<float>(activate(it.activation, value));
  return result;
}

}  // namespace weightpager::ops::naive
