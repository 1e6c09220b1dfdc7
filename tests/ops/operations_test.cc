// Every operation against loops that follow its definition (naive.h), and the promise that an image
// gives the same bits however layers are cut into tiles.
#include "runtime/ops/cpu/operations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "tests/base/sanitized.h"
#include "tests/ops/compute_threads.h"
#include "tests/ops/layers.h"
#include "tests/ops/naive.h"

namespace weightpager::ops {
namespace {

using naive::random_values;
using naive::Values;
using network::Activation;
using network::Layer;
using network::Network;
using network::Shape;

Network of_layers(const Shape& input, std::vector<Layer> layers) {
  return Network{.input = input, .layers = std::move(layers)};
}

CpuOperations make(const Network& network, Unfold unfolding = Unfold::by_tile) {
  auto made = CpuOperations::make(network, compute_threads, CpuOperations::Scratch::own, unfolding);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// A network of one layer without weights, run as a whole.
Values run_layer(const Network& network, std::vector<const float*> inputs, Values output = {}) {
  const uint32_t last = static_cast<uint32_t>(network.layers.size()) - 1;
  CpuOperations operations = make(network);
  output.resize(network.layers[last].output.elements());
  const Status status =
      operations.run(last, operations.all_channels(last), {}, inputs, output.data());
  EXPECT_TRUE(status) << status.error().message;
  return output;
}

/// In tiles of so many channels, or up to the next boundary.
Values run_tiles(CpuOperations& operations, const Layer& layer, const Weights& weights,
                 const Values& input, uint32_t tile) {
  Values output(layer.output.elements(), NAN);
  const uint64_t weights_per_channel = layer.weights() / layer.output.channels;
  for (uint32_t begin = 0, end = 0; begin < layer.output.channels; begin = end) {
    end = std::min(layer.output.channels, begin + tile);
    while (!operations.is_tile_boundary(0, end)) ++end;
    const float* const inputs[] = {input.data()};
    const Status status = operations.run(
        0, {begin, end},
        {weights.biases.data() + begin, weights.first() + begin * weights_per_channel}, inputs,
        output.data());
    EXPECT_TRUE(status) << status.error().message;
  }
  return output;
}

bool same_bits(const Values& left, const Values& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

struct ConvolutionCase {
  Shape input;
  network::Convolutional convolutional;
};

class Convolutions : public testing::TestWithParam<ConvolutionCase> {};

TEST_P(Convolutions, EqualsTheDefinitionAndItsTiles) {
  const Layer layer = convolutional(GetParam().input, GetParam().convolutional);
  const Weights weights(layer);
  const Values input = random_values(layer.input.elements(), 9);
  CpuOperations operations = make(of_layers(layer.input, {layer}));
  CpuOperations unfolding_once = make(of_layers(layer.input, {layer}), Unfold::once);
  const Values whole = run_tiles(operations, layer, weights, input, layer.output.channels);
  EXPECT_LT(
      relative_error(naive::convolutional(layer, input, weights.biases, weights.plain()), whole),
      2e-6);
  const Values other_input = random_values(layer.input.elements(), 10);
  for (const uint32_t tile : {16u, 32u, 48u, 80u, 128u}) {
    EXPECT_TRUE(same_bits(whole, run_tiles(operations, layer, weights, input, tile)))
        << "tiles of " << tile << " channels";
    run_tiles(unfolding_once, layer, weights, other_input, tile);
    EXPECT_TRUE(same_bits(whole, run_tiles(unfolding_once, layer, weights, input, tile)))
        << "tiles of " << tile << " channels after another picture";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Convolutions,
    testing::Values(ConvolutionCase{{3, 33, 41}, {32, 3, 1, 1, 1, false, Activation::leaky}},
                    ConvolutionCase{{3, 64, 64}, {64, 7, 2, 3, 1, false, Activation::relu}},
                    ConvolutionCase{{3, 67, 67}, {96, 11, 4, 0, 1, false, Activation::relu}},
                    ConvolutionCase{{32, 31, 30}, {64, 3, 2, 1, 1, false, Activation::mish}},
                    ConvolutionCase{{64, 19, 19}, {144, 1, 1, 0, 1, false, Activation::swish}},
                    ConvolutionCase{{64, 20, 20}, {128, 1, 2, 0, 1, false, Activation::linear}},
                    ConvolutionCase{{256, 5, 7}, {255, 1, 1, 0, 1, false, Activation::logistic}},
                    ConvolutionCase{{512, 4, 4}, {192, 3, 1, 1, 1, false, Activation::leaky}},
                    ConvolutionCase{{1024, 1, 1}, {100, 1, 1, 0, 1, false, Activation::linear}},
                    ConvolutionCase{{8, 3, 3}, {16, 5, 1, 2, 1, false, Activation::leaky}},
                    ConvolutionCase{{64, 14, 14}, {96, 3, 1, 1, 2, false, Activation::leaky}},
                    ConvolutionCase{{64, 14, 14}, {128, 3, 1, 1, 32, false, Activation::leaky}},
                    ConvolutionCase{{6, 14, 14}, {105, 3, 1, 1, 3, false, Activation::leaky}},
                    ConvolutionCase{{6, 2, 2}, {105, 3, 1, 1, 3, false, Activation::leaky}},
                    ConvolutionCase{{24, 9, 9}, {24, 3, 1, 1, 24, false, Activation::relu}}));

TEST(Convolutions, EveryShapeGivesTheSameBitsTiled) {
  // Sums of many lengths over pictures of many sizes: where oneDNN changes its ways.
  for (const uint32_t side : {1u, 2u, 7u, 13u, 19u, 38u, 61u}) {
    if (side > 19 && is_sanitized) break;
    for (const uint32_t channels : {16u, 65u, 256u, 520u}) {
      for (const uint32_t size : {1u, 3u}) {
        const Layer layer = convolutional({channels, side, side},
                                          {176, size, 1, size / 2, 1, false, Activation::mish});
        const Weights weights(layer);
        const Values input = random_values(layer.input.elements(), 9);
        CpuOperations operations = make(of_layers(layer.input, {layer}));
        const Values whole = run_tiles(operations, layer, weights, input, 176);
        for (const uint32_t tile : {16u, 48u, 64u, 96u}) {
          EXPECT_TRUE(same_bits(whole, run_tiles(operations, layer, weights, input, tile)))
              << fmt::format("{} x {} x {}, kernel {}, tiles of {}", channels, side, side, size,
                             tile);
        }
      }
    }
  }
}

// What a tile computes if its input has changed since the tile before it.
Values second_tile_of_changed_input(Unfold unfolding, const Layer& layer) {
  const Weights weights(layer);
  Values input = random_values(layer.input.elements(), 9);
  Values output(layer.output.elements());
  CpuOperations operations = make(of_layers(layer.input, {layer}), unfolding);
  for (const Channels tile : {Channels{0, 64}, Channels{64, 192}}) {
    const float* const inputs[] = {input.data()};
    const TileWeights of_tile = {
        weights.biases.data() + tile.begin,
        weights.first() + tile.begin * (layer.weights() / layer.output.channels)};
    EXPECT_TRUE(operations.run(0, tile, of_tile, inputs, output.data()));
    std::fill(input.begin(), input.end(), 0.0f);
  }
  return output;
}

TEST(Convolutions, ThePictureIsUnfoldedOnceWhereItIsSmall) {
  const auto differs = [](const Shape& input) {
    const Layer layer = convolutional(input, {192, 3, 1, 1, 1, false, Activation::linear});
    return !same_bits(second_tile_of_changed_input(Unfold::by_tile, layer),
                      second_tile_of_changed_input(Unfold::once, layer));
  };
  EXPECT_TRUE(differs({2048, 13, 13}));  // in blocks
  EXPECT_TRUE(differs({64, 8, 8}));
  EXPECT_FALSE(differs({64, 14, 14}));  // more pixels than output channels
}

TEST(Convolutions, TilesBeginAtMultiplesOfAStepAndEndWithTheLayer) {
  const Layer layer = convolutional({24, 4, 4}, {200, 1, 1, 0, 2, false, Activation::linear});
  const uint32_t step = channel_step(layer);
  EXPECT_TRUE(step == 16 || step == 64) << step;
  const CpuOperations operations = make(of_layers(layer.input, {layer}));
  for (uint32_t channel = 0; channel <= 200; ++channel) {
    EXPECT_EQ(operations.is_tile_boundary(0, channel), channel % step == 0 || channel == 200);
  }
}

// 16 channels of the first are 590 KiB; of the other one every weight is used once.
TEST(Convolutions, TilesOfHeavyLayersAndOfSinglePixelsBeginAtMultiplesOf16) {
  EXPECT_EQ(channel_step(convolutional({1024, 4, 4}, {64, 3, 1, 1, 1, false, {}})), 16u);
  EXPECT_EQ(channel_step(convolutional({64, 1, 1}, {64, 1, 1, 0, 1, false, {}})), 16u);
}

TEST(Connected, EqualsTheDefinitionAndItsTiles) {
  const Shape input_shape{32, 6, 6};
  const Layer layer =
      of_operation(network::Connected{250, false, Activation::leaky}, input_shape, {250, 1, 1});
  const Weights weights(layer);
  const Values input = random_values(input_shape.elements(), 3);
  Values expected(250);
  for (size_t output = 0; output < 250; ++output) {
    const float* row = weights.first() + output * input.size();
    expected[output] = static_cast<float>(naive::activate(
        Activation::leaky,
        std::inner_product(input.begin(), input.end(), row, double{weights.biases[output]})));
  }
  CpuOperations operations = make(of_layers(input_shape, {layer}));
  const Values whole = run_tiles(operations, layer, weights, input, 250);
  EXPECT_LT(relative_error(expected, whole), 2e-6);
  for (const uint32_t tile : {16u, 112u}) {
    EXPECT_TRUE(same_bits(whole, run_tiles(operations, layer, weights, input, tile))) << tile;
  }
}

struct PoolCase {
  Shape input;
  network::MaxPool pool;
};

class MaxPools : public testing::TestWithParam<PoolCase> {};

TEST_P(MaxPools, EqualTheDefinition) {
  const auto& [input, pool] = GetParam();
  const auto side = [&, &it = pool](uint32_t length) {
    return (length + it.padding - it.size) / it.stride + 1;
  };
  const Layer layer =
      of_operation(pool, input, {input.channels, side(input.height), side(input.width)});
  const Values values = random_values(input.elements(), 5);
  EXPECT_EQ(run_layer(of_layers(input, {layer}), {values.data()}), naive::max_pool(layer, values));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MaxPools,
    testing::Values(PoolCase{{16, 12, 14}, {2, 2, 1}}, PoolCase{{16, 13, 13}, {2, 2, 1}},
                    PoolCase{{2, 4, 4}, {2, 1, 8}}, PoolCase{{5, 13, 13}, {2, 1, 1}},
                    PoolCase{{17, 19, 19}, {5, 1, 4}}, PoolCase{{17, 10, 19}, {13, 1, 12}},
                    PoolCase{{3, 55, 55}, {3, 2, 0}}, PoolCase{{64, 32, 32}, {3, 2, 2}},
                    PoolCase{{64, 32, 32}, {2, 2, 0}},
                    // Without AVX-512 eight channels and 64 at a time, and a rest of six and 36.
                    PoolCase{{70, 150, 150}, {3, 2, 0}}, PoolCase{{100, 64, 64}, {3, 2, 2}}));

TEST(AveragePool, IsTheMeanOfEachChannel) {
  const Shape shape{70, 7, 9};
  const Values input = random_values(shape.elements(), 5);
  Values expected;
  for (auto channel = input.begin(); channel != input.end(); channel += 63) {
    expected.push_back(static_cast<float>(std::accumulate(channel, channel + 63, 0.0) / 63));
  }
  const Layer layer = of_operation(network::AveragePool{}, shape, {70, 1, 1});
  EXPECT_LT(relative_error(expected, run_layer(of_layers(shape, {layer}), {input.data()})), 1e-6);
}

TEST(Upsample, RepeatsAndScales) {
  const Shape shape{3, 4, 5};
  const Values input = random_values(shape.elements(), 5);
  const Layer layer = of_operation(network::Upsample{3, 0.5f}, shape, {3, 12, 15});
  Values expected;
  for (uint32_t channel = 0; channel < 3; ++channel) {
    for (uint32_t y = 0; y < 12; ++y) {
      for (uint32_t x = 0; x < 15; ++x) {
        expected.push_back(0.5f * input[(channel * 4 + y / 3) * 5 + x / 3]);
      }
    }
  }
  EXPECT_EQ(run_layer(of_layers(shape, {layer}), {input.data()}), expected);
}

TEST(Crop, IsTheMiddleScaledAndShifted) {
  const Shape shape{2, 7, 8};
  const Values input = random_values(shape.elements(), 5);
  const Layer layer = of_operation(network::Crop{2, -1}, shape, {2, 4, 5});
  Values expected;
  for (uint32_t channel = 0; channel < 2; ++channel) {
    for (uint32_t y = 1; y < 5; ++y) {
      for (uint32_t x = 1; x < 6; ++x) expected.push_back(2 * input[(channel * 7 + y) * 8 + x] - 1);
    }
  }
  EXPECT_EQ(run_layer(of_layers(shape, {layer}), {input.data()}), expected);
}

TEST(Softmax, IsOverEachGroupAndKnowsTemperature) {
  const Shape shape{30, 1, 2};
  const Values input = random_values(shape.elements(), 5, 8);
  const Layer layer = of_operation(network::Softmax{4, 2.5f}, shape, shape);
  Values expected;
  for (size_t group = 0; group < 4; ++group) {
    double sum = 0;
    for (size_t i = 0; i < 15; ++i) sum += std::exp(input[group * 15 + i] / 2.5);
    for (size_t i = 0; i < 15; ++i) {
      expected.push_back(static_cast<float>(std::exp(input[group * 15 + i] / 2.5) / sum));
    }
  }
  const Network network = of_layers(shape, {layer});
  EXPECT_LT(relative_error(expected, run_layer(network, {input.data()})), 1e-6);
}

// Layer 0 stands for an earlier layer of another shape.
Network shortcut_of(const Shape& added, const Shape& output, Activation activation) {
  return of_layers(output, {of_operation(network::Dropout{}, added, added),
                            of_operation(network::Shortcut{activation}, output, output,
                                         {network::network_input, 0})});
}

TEST(Shortcut, AddsEqualAndUnequalShapesAsDarknetDoes) {
  const Shape output{12, 8, 8};
  const Values first = random_values(output.elements(), 1);
  for (const Shape& added :
       {Shape{12, 8, 8}, Shape{20, 8, 8}, Shape{5, 8, 8}, Shape{6, 16, 16}, Shape{14, 4, 4}}) {
    const Network network = shortcut_of(added, output, Activation::leaky);
    const Values second = random_values(added.elements(), 2);
    const Values expected = naive::shortcut(network.layers[1], first, added, second);
    EXPECT_LT(relative_error(expected, run_layer(network, {first.data(), second.data()})), 1e-6)
        << added.channels << " x " << added.height;
  }
}

TEST(Shortcut, MayBeInPlace) {
  const Shape output{12, 8, 8};
  const Values first = random_values(output.elements(), 1);
  for (const Shape& added : {Shape{12, 8, 8}, Shape{6, 16, 16}}) {
    const Network network = shortcut_of(added, output, Activation::mish);
    const Values second = random_values(added.elements(), 2);
    const Values apart = run_layer(network, {first.data(), second.data()});
    CpuOperations operations = make(network);
    Values values = first;
    const float* const inputs[] = {values.data(), second.data()};
    ASSERT_TRUE(operations.run(1, operations.all_channels(1), {}, inputs, values.data()));
    EXPECT_TRUE(same_bits(apart, values));
  }
}

TEST(Route, ConcatenatesPartsOfItsInputs) {
  const Shape left{4, 3, 3};
  const Shape right{6, 3, 3};
  const Values first = random_values(left.elements(), 1);
  const Values second = random_values(right.elements(), 2);
  const Network network = of_layers(
      left, {of_operation(network::Dropout{}, right, right),
             of_operation(network::Route{2, 1}, left, {5, 3, 3}, {network::network_input, 0})});
  Values expected(first.begin() + 18, first.end());
  expected.insert(expected.end(), second.begin() + 27, second.end());
  EXPECT_EQ(run_layer(network, {first.data(), second.data()}), expected);
}

TEST(Yolo, ActivatesWhatDarknetActivates) {
  const Shape shape{2 * 8, 3, 5};
  const Values input = random_values(shape.elements(), 1, 4);
  for (const bool has_new_coordinates : {false, true}) {
    network::Yolo yolo{.classes = 3,
                       .anchors = {10, 10, 20, 20, 30, 30},
                       .mask = {1, 2},
                       .scale_x_y = 1.2f,
                       .has_new_coordinates = has_new_coordinates};
    const Layer layer = of_operation(yolo, shape, shape);
    Values expected;
    for (size_t i = 0; i < input.size(); ++i) {
      const size_t entry = i / 15 % 8;
      const bool is_size = entry == 2 || entry == 3;
      double value = input[i];
      if (!has_new_coordinates && !is_size) value = naive::activate(Activation::logistic, value);
      if (entry < 2) value = value * 1.2 - 0.1;
      expected.push_back(static_cast<float>(value));
    }
    EXPECT_LT(relative_error(expected, run_layer(of_layers(shape, {layer}), {input.data()})), 1e-6);
  }
}

TEST(CpuOperations, TwoInferencesAtOnceDoNotMeet) {
  const Layer layer = convolutional({64, 19, 19}, {96, 3, 1, 1, 1, false, Activation::mish});
  const Weights weights(layer);
  const Network network = of_layers(layer.input, {layer});
  const auto infer = [&](uint32_t seed) {
    CpuOperations operations = make(network);
    return run_tiles(operations, layer, weights, random_values(layer.input.elements(), seed), 32);
  };
  const Values alone[] = {infer(1), infer(2)};
  std::array<Values, 2> together;
  std::array<std::thread, 2> others;
  for (uint32_t it = 0; it < 2; ++it) {
    others[it] = std::thread([&, it] {
      for (int round = 0; round < 20; ++round) together[it] = infer(it + 1);
    });
  }
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(same_bits(alone[0], together[0]));
  EXPECT_TRUE(same_bits(alone[1], together[1]));
  EXPECT_FALSE(same_bits(alone[0], alone[1]));
}

TEST(CpuOperations, SaysWhichLayerCannotBeComputed) {
  // The output is too large for the input.
  const Layer layer = of_operation(network::MaxPool{2, 2, 1}, {1, 4, 4}, {1, 11, 11});
  const auto made = CpuOperations::make(of_layers(layer.input, {layer}), 1);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("layer 0 (maxpool"), std::string::npos)
      << made.error().message;
}

}  // namespace
}  // namespace weightpager::ops
