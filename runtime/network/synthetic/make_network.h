// Makes well-known networks: a .cfg and a .weights file with random weights.
//
// The outputs of such a network mean nothing. But it has the shapes, the sizes and the work of the
// real one, and activations of a sensible scale in every layer, so the outputs of two programs can
// be compared. The same name and seed give the same bytes. Cost: that of writing the file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::network {

/// How a layer's weights are to be distributed. The values are floats, so that the weights stay the
/// same where another machine rounds a logarithm or exponential differently.
struct WeightScale {
  /// Standard deviation of the weights; their mean is 0.
  float weight_deviation = 0;
  /// About the variance of the weights' outputs: batch normalization divides by its root.
  float variance = 1;
  /// The bias of every box's objectness, in the layer before [yolo]: few boxes should be sure. Else
  /// 0.
  float objectness_bias = 0;
  /// The numbers per box in the layer before [yolo]; else 0.
  uint32_t box_channels = 0;
};

/// By layer, following how large activations become on their way through the network.
std::vector<WeightScale> weight_scales(const Network& network);

struct MakeNetworkOptions {
  /// One of described_networks().
  std::string name;
  /// The folder for NAME.cfg and NAME.weights. It is made if it is not there.
  std::string directory;
  uint64_t seed = 1;
  /// Whether to replace files that are there.
  bool overwrite = false;
  /// Called with the bytes written so far and the bytes of the whole file.
  std::function<void(uint64_t, uint64_t)> on_progress;
};

struct MadeNetwork {
  std::string description_path;
  std::string weights_path;
  Network network;
};

Result<MadeNetwork> make_network(const MakeNetworkOptions& options);

/// A layer's part of the .weights file: its raw_bytes().
std::vector<float> make_raw_layer(const Layer& layer, const WeightScale& scale, uint64_t seed);

}  // namespace weightpager::network
