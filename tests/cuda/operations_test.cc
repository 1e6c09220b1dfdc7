// Every kind of layer on a GPU against the processor's, and the promise that an image gives the
// same bits however layers are cut into tiles.
#include "runtime/ops/cuda/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/ops/cpu/operations.h"
#include "runtime/pipeline/cuda/status.h"
#include "tests/cuda/gpu.h"
#include "tests/ops/compute_threads.h"
#include "tests/ops/layers.h"
#include "tests/ops/naive.h"

namespace weightpager::cuda {
namespace {

using network::Activation;
using network::Layer;
using network::Network;
using network::Shape;
using ops::Channels;
using ops::convolutional;
using ops::CpuOperations;
using ops::of_operation;
using ops::relative_error;
using ops::Weights;
using ops::naive::random_values;
using ops::naive::Values;

bool same_bits(const Values& left, const Values& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

class CudaOperationsTest : public testing::Test {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(cuda::missing());
    auto stream = make_stream();
    ASSERT_TRUE(stream) << stream.error().message;
    stream_ = std::move(*stream);
  }

  CudaOperations make(const Network& network) const {
    auto made = CudaOperations::make(network, stream_.get());
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }

  // The last layer, whole, on the GPU. In place: the output is the first input.
  Values run_layer(const Network& network, const std::vector<Values>& inputs,
                   bool is_in_place = false) const {
    const auto last = static_cast<uint32_t>(network.layers.size() - 1);
    CudaOperations operations = make(network);
    std::vector<DeviceFloats> there;
    std::vector<const float*> pointers;
    for (const Values& input : inputs) {
      there.emplace_back(input);
      pointers.push_back(there.back().first());
    }
    const DeviceFloats output(network.layers[last].output.elements());
    const DeviceFloats& target = is_in_place ? there.front() : output;
    const Status ran =
        operations.run(last, operations.all_channels(last), {}, pointers, target.first());
    EXPECT_TRUE(ran) << ran.error().message;
    return target.fetch(stream_.get());
  }

  // The same on the processor.
  static Values run_on_processor(const Network& network, const std::vector<Values>& inputs) {
    const auto last = static_cast<uint32_t>(network.layers.size() - 1);
    auto operations = CpuOperations::make(network, ops::compute_threads);
    if (!operations) throw std::runtime_error(operations.error().message);
    std::vector<const float*> pointers;
    for (const Values& input : inputs) pointers.push_back(input.data());
    Values output(network.layers[last].output.elements());
    EXPECT_TRUE(operations->run(last, operations->all_channels(last), {}, pointers, output.data()));
    return output;
  }

  void expect_same_as_processor(const Network& network, const std::vector<Values>& inputs) const {
    EXPECT_LT(relative_error(run_on_processor(network, inputs), run_layer(network, inputs)), 1e-5);
  }

  Stream stream_;
};

struct WeightedCase {
  const char* what;
  Layer layer;
  uint32_t tile;
};

const WeightedCase weighted_cases[] = {
    {"3 x 3", convolutional({3, 20, 24}, {40, 3, 1, 1, 1, false, Activation::leaky}), 16},
    {"stride 2", convolutional({16, 21, 19}, {48, 3, 2, 1, 1, false, Activation::mish}), 32},
    {"1 x 1", convolutional({70, 13, 13}, {255, 1, 1, 0, 1, false, Activation::linear}), 64},
    {"1 x 1, stride 2", convolutional({9, 8, 8}, {20, 1, 2, 0, 1, false, Activation::relu}), 16},
    {"11 x 11", convolutional({3, 35, 35}, {33, 11, 4, 2, 1, false, Activation::relu}), 16},
    {"groups", convolutional({24, 9, 9}, {48, 3, 1, 1, 3, false, Activation::swish}), 16},
    {"depthwise", convolutional({24, 9, 9}, {24, 3, 1, 1, 24, false, Activation::logistic}), 24},
    {"a pixel", convolutional({512, 1, 1}, {100, 3, 1, 1, 1, false, Activation::leaky}), 48},
    {"blocks", convolutional({512, 61, 61}, {32, 3, 1, 1, 1, false, Activation::leaky}), 16},
    {"connected",
     of_operation(network::Connected{250, false, Activation::leaky}, {32, 6, 6}, {250, 1, 1}), 112},
};

class CudaWeighted : public CudaOperationsTest, public testing::WithParamInterface<WeightedCase> {
 protected:
  Values run_tiles(CudaOperations& operations, uint32_t tile) const {
    const Layer& layer = GetParam().layer;
    const Weights weights(layer);
    const DeviceFloats floats(weights.floats);
    const DeviceFloats biases(weights.biases);
    const DeviceFloats input(random_values(layer.input.elements(), 3));
    const DeviceFloats output(Values(layer.output.elements(), NAN));
    const uint64_t weights_per_channel = layer.weights() / layer.output.channels;
    const float* const inputs[] = {input.first()};
    for (uint32_t begin = 0; begin < layer.output.channels; begin += tile) {
      const Channels channels{begin, std::min(layer.output.channels, begin + tile)};
      const Status ran = operations.run(
          0, channels, {biases.first() + begin, floats.first() + 1 + begin * weights_per_channel},
          inputs, output.first());
      EXPECT_TRUE(ran) << ran.error().message;
    }
    return output.fetch(stream_.get());
  }
};

TEST_P(CudaWeighted, EqualsTheProcessorsAndItsTiles) {
  const auto& [what, layer, tile] = GetParam();
  const Network network{.input = layer.input, .layers = {layer}};
  const Weights weights(layer);
  const Values input = random_values(layer.input.elements(), 3);
  auto processor = CpuOperations::make(network, ops::compute_threads);
  ASSERT_TRUE(processor) << processor.error().message;
  Values expected(layer.output.elements());
  const float* const inputs[] = {input.data()};
  ASSERT_TRUE(processor->run(0, processor->all_channels(0),
                             {weights.biases.data(), weights.first()}, inputs, expected.data()));
  CudaOperations operations = make(network);
  const Values whole = run_tiles(operations, layer.output.channels);
  EXPECT_LT(relative_error(expected, whole), 1e-5);
  EXPECT_TRUE(same_bits(whole, run_tiles(operations, tile)));
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaWeighted, testing::ValuesIn(weighted_cases),
                         [](const auto& it) {
                           std::string name = it.param.what;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST_F(CudaOperationsTest, UnfoldedPicturesHaveABound) {
  const Layer layer = convolutional({64, 304, 304}, {16, 3, 1, 1, 1, false, Activation::linear});
  EXPECT_EQ(make({.input = layer.input, .layers = {layer}}).scratch_bytes() >> 20, 31u);
}

TEST_F(CudaOperationsTest, TilesBeginAtMultiplesOf16AndEndWithTheLayer) {
  const Layer layer = convolutional({24, 4, 4}, {40, 1, 1, 0, 2, false, Activation::linear});
  const Layer pool = of_operation(network::MaxPool{2, 2, 0}, {40, 4, 4}, {40, 2, 2}, {0});
  const CudaOperations operations = make({.input = layer.input, .layers = {layer, pool}});
  for (uint32_t channel = 0; channel <= 40; ++channel) {
    const bool is_end = channel == 0 || channel == 40;
    EXPECT_EQ(operations.is_tile_boundary(0, channel), is_end || channel % 16 == 0) << channel;
    EXPECT_EQ(operations.is_tile_boundary(1, channel), is_end) << channel;
  }
}

TEST_F(CudaOperationsTest, MaxPools) {
  for (const auto& [input, pool] : {std::pair(Shape{16, 12, 14}, network::MaxPool{2, 2, 1}),
                                    {Shape{5, 13, 13}, network::MaxPool{2, 1, 1}},
                                    {Shape{17, 19, 19}, network::MaxPool{5, 1, 4}},
                                    {Shape{17, 10, 19}, network::MaxPool{13, 1, 12}},
                                    {Shape{3, 55, 55}, network::MaxPool{3, 2, 0}}}) {
    const auto side = [&, &it = pool](uint32_t length) {
      return (length + it.padding - it.size) / it.stride + 1;
    };
    const Layer layer =
        of_operation(pool, input, {input.channels, side(input.height), side(input.width)});
    const Values values = random_values(input.elements(), 5);
    EXPECT_EQ(run_layer({.input = input, .layers = {layer}}, {values}),
              ops::naive::max_pool(layer, values));
  }
}

TEST_F(CudaOperationsTest, AveragePoolAndUpsample) {
  const Shape shape{70, 7, 9};
  const Values input = random_values(shape.elements(), 5);
  expect_same_as_processor(
      {.input = shape, .layers = {of_operation(network::AveragePool{}, shape, {70, 1, 1})}},
      {input});
  const Shape large{3, 40, 50};
  expect_same_as_processor(
      {.input = large, .layers = {of_operation(network::AveragePool{}, large, {3, 1, 1})}},
      {random_values(large.elements(), 6)});
  expect_same_as_processor(
      {.input = shape, .layers = {of_operation(network::Upsample{3, 0.5f}, shape, {70, 21, 27})}},
      {input});
}

TEST_F(CudaOperationsTest, Crop) {
  const Shape shape{3, 17, 20};
  expect_same_as_processor(
      {.input = shape, .layers = {of_operation(network::Crop{2, -1}, shape, {3, 12, 13})}},
      {random_values(shape.elements(), 5)});
}

TEST_F(CudaOperationsTest, SoftmaxOverGroupsWithATemperatureAndInPlace) {
  for (const network::Softmax& softmax : {network::Softmax{4, 2.5f}, network::Softmax{1, 1}}) {
    const Shape shape{1000, 1, 2};
    const Network network{.input = shape, .layers = {of_operation(softmax, shape, shape)}};
    const Values input = random_values(shape.elements(), 5, 8);
    expect_same_as_processor(network, {input});
    EXPECT_TRUE(same_bits(run_layer(network, {input}), run_layer(network, {input}, true)));
  }
}

TEST_F(CudaOperationsTest, ShortcutsOfEqualAndUnequalShapesAndInPlace) {
  const Shape output{12, 8, 8};
  const Values first = random_values(output.elements(), 1);
  for (const Shape& added :
       {Shape{12, 8, 8}, Shape{20, 8, 8}, Shape{5, 8, 8}, Shape{6, 16, 16}, Shape{14, 4, 4}}) {
    for (const Activation activation : {Activation::linear, Activation::leaky, Activation::mish}) {
      // Layer 0 stands for an earlier layer of another shape.
      const Network network{.input = output,
                            .layers = {of_operation(network::Dropout{}, added, added),
                                       of_operation(network::Shortcut{activation}, output, output,
                                                    {network::network_input, 0})}};
      const Values second = random_values(added.elements(), 2);
      expect_same_as_processor(network, {first, second});
      EXPECT_TRUE(same_bits(run_layer(network, {first, second}),
                            run_layer(network, {first, second}, true)));
    }
  }
}

TEST_F(CudaOperationsTest, RouteDropoutAndCost) {
  const Shape left{4, 3, 3};
  const Shape right{6, 3, 3};
  const Values first = random_values(left.elements(), 1);
  const Network route{
      .input = left,
      .layers = {of_operation(network::Dropout{}, right, right),
                 of_operation(network::Route{2, 1}, left, {5, 3, 3}, {network::network_input, 0})}};
  expect_same_as_processor(route, {first, random_values(right.elements(), 2)});
  expect_same_as_processor(
      {.input = left, .layers = {of_operation(network::Dropout{}, left, left)}}, {first});
  expect_same_as_processor({.input = left, .layers = {of_operation(network::Cost{}, left, left)}},
                           {first});
}

TEST_F(CudaOperationsTest, Yolo) {
  const Shape shape{2 * 8, 3, 5};
  const Values input = random_values(shape.elements(), 1, 4);
  for (const bool has_new_coordinates : {false, true}) {
    const network::Yolo yolo{.classes = 3,
                             .anchors = {10, 10, 20, 20, 30, 30},
                             .mask = {1, 2},
                             .scale_x_y = 1.2f,
                             .has_new_coordinates = has_new_coordinates};
    const Network network{.input = shape, .layers = {of_operation(yolo, shape, shape)}};
    expect_same_as_processor(network, {input});
    EXPECT_TRUE(same_bits(run_layer(network, {input}), run_layer(network, {input}, true)));
  }
}

TEST_F(CudaOperationsTest, ActivationsOfLargeValuesAreFinite) {
  for (const Activation activation :
       {Activation::logistic, Activation::mish, Activation::swish, Activation::leaky}) {
    const Layer layer = convolutional({1, 1, 8}, {1, 1, 1, 0, 1, false, activation});
    CudaOperations operations = make({.input = layer.input, .layers = {layer}});
    const Values values = {-200, -90, -20, -1, 1, 19.99f, 20.01f, 200};
    const DeviceFloats input(values);
    const DeviceFloats one(Values{1});
    const DeviceFloats none(Values{0});
    const DeviceFloats output(values.size());
    const float* const inputs[] = {input.first()};
    ASSERT_TRUE(operations.run(0, {0, 1}, {none.first(), one.first()}, inputs, output.first()));
    const Values found = output.fetch(stream_.get());
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = ops::naive::activate(activation, values[i]);
      EXPECT_NEAR(found[i], expected, 1e-5 * std::max(1.0, std::abs(expected))) << values[i];
    }
  }
}

TEST_F(CudaOperationsTest, SaysWhichLayerIsTooLarge) {
  const Shape shape{60000, 200, 200};
  const Layer layer = of_operation(network::Dropout{}, shape, shape);
  const auto made = CudaOperations::make({.input = shape, .layers = {layer}}, stream_.get());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("layer 0 (dropout"), std::string::npos)
      << made.error().message;
}

}  // namespace
}  // namespace weightpager::cuda
