// A detector with everything that one has, on the disk, and a picture for it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/infer/inference.h"
#include "runtime/network/packed_file.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/make_network.h"
#include "runtime/ops/cpu/convolution.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::infer {

/// Everything that a detector has, in small: about 1 MiB of weights, the largest layer half of it.
inline constexpr const char* small_description = R"(
[net]
width=64
height=64
channels=3
[convolutional]
batch_normalize=1
filters=16
size=3
stride=1
pad=1
activation=mish
[convolutional]
batch_normalize=1
filters=32
size=3
stride=2
pad=1
activation=leaky
[route]
layers=-1
groups=2
group_id=1
[convolutional]
filters=32
size=1
stride=1
activation=leaky
[route]
layers=-1,-3
[maxpool]
size=2
stride=2
[convolutional]
batch_normalize=1
filters=128
size=3
stride=1
pad=1
activation=leaky
[convolutional]
batch_normalize=1
filters=128
size=3
stride=1
pad=1
activation=linear
[shortcut]
from=-2
activation=leaky
[convolutional]
batch_normalize=1
filters=200
size=3
pad=1
stride=2
activation=swish
[upsample]
stride=2
[convolutional]
filters=21
size=1
stride=1
activation=linear
[yolo]
mask=0,1,2
anchors=10,14, 23,27, 37,58
classes=2
num=3
)";

/// What is made of it, for tests to derive from.
class SmallNetwork {
 protected:
  void make(const char* description = small_description) {
    auto parsed = network::parse_network(description, "small.cfg");
    ASSERT_TRUE(parsed) << parsed.error().message;
    network_ = std::move(*parsed);
    write_weights();
    packed_path_ = directory_.path("small.packed");
    const auto packed = network::pack_weights(network_, {weights_path_, packed_path_, true, {}});
    ASSERT_TRUE(packed) << packed.error().message;
    std::mt19937 random(3);
    std::uniform_real_distribution<float> brightness(0, 1);
    input_.resize(network_.input.elements());
    for (float& value : input_) value = brightness(random);
  }

  /// A window that layers need tiles for, by what it is where tiles may have 16 channels: on some
  /// processors they have 64 at least.
  uint64_t window_for_tiles(uint64_t window_bytes) const {
    uint32_t step = ops::tile_channels;
    for (const network::Layer& it : network_.layers) step = std::max(step, ops::channel_step(it));
    return window_bytes * step / ops::tile_channels;
  }

  void write_weights() {
    weights_path_ = directory_.path("small.weights");
    std::ofstream file(weights_path_, std::ios::binary);
    const int32_t header[] = {0, 2, 0, 0, 0};
    file.write(reinterpret_cast<const char*>(header), sizeof header);
    const auto scales = network::weight_scales(network_);
    for (size_t i = 0; i < network_.layers.size(); ++i) {
      const auto floats = network::make_raw_layer(network_.layers[i], scales[i], 100 + i);
      file.write(reinterpret_cast<const char*>(floats.data()),
                 static_cast<std::streamsize>(floats.size() * sizeof(float)));
    }
  }

  Status run(Inference& inference) const {
    const std::span<const float> input = input_;
    return inference.run({&input, 1});
  }

  std::vector<float> last_output(const Inference& inference, size_t image = 0) const {
    const auto last = static_cast<uint32_t>(network_.layers.size() - 1);
    const float* const output = inference.activations(image).output(last);
    return {output, output + network_.layers[last].output.elements()};
  }

  std::vector<float> output_of(Inference& inference) const {
    const Status ran = run(inference);
    EXPECT_TRUE(ran) << ran.error().message;
    return ran ? last_output(inference) : std::vector<float>();
  }

  /// In the middle of the largest layer's packed weights. Twice, and all is as before.
  void flip_a_packed_bit() const {
    const auto offset_bytes = static_cast<std::streamoff>(network_.folded_bytes() * 3 / 4);
    std::fstream file(packed_path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(offset_bytes);
    const int byte = file.get();
    file.seekp(offset_bytes);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.flush()) << packed_path_;
  }

  /// A damaged byte is an error in each of some passes, and what is mended is right again.
  void expect_damage_in_every_pass(Inference& inference) const {
    const std::vector<float> expected = output_of(inference);
    for (int pass = 0; pass < 3; ++pass) {
      flip_a_packed_bit();
      const Status failed = run(inference);
      ASSERT_FALSE(failed);
      EXPECT_NE(failed.error().message.find("checksum"), std::string::npos);
      flip_a_packed_bit();
      EXPECT_EQ(output_of(inference), expected);
    }
  }

  model::TemporaryDirectory directory_;
  network::Network network_;
  std::string weights_path_;
  std::string packed_path_;
  std::vector<float> input_;
};

}  // namespace weightpager::infer
