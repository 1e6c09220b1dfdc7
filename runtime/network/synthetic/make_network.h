// Makes well-known networks: a .cfg and a .weights file with random weights.
//
// What comes out of such a network means nothing, but it has the shapes, the sizes and the work of
// the real one, and activations of a sensible scale in every layer, so that outputs of two programs
// can be compared. The same name and seed give the same bytes. Cost: what writing the file costs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::network {

/// What a layer's weights are to be like. In floats, so that a logarithm or exponential that
/// another machine rounds differently does not make other weights.
struct WeightScale {
  /// Standard deviation of the weights; their mean is 0.
  float weight_deviation = 0;
  /// About what batch normalization divides by the root of: what comes out of the weights.
  float variance = 1;
  /// Of every box's objectness, in the layer before [yolo]: few boxes should be sure. Else 0.
  float objectness_bias = 0;
  /// Numbers of one box in the layer before [yolo]; else 0.
  uint32_t box_channels = 0;
};

/// Of every layer, following how large activations become on their way through the network.
std::vector<WeightScale> weight_scales(const Network& network);

struct MakeNetworkOptions {
  /// One of described_networks().
  std::string name;
  /// Gets NAME.cfg and NAME.weights. Made if it is not there.
  std::string directory;
  uint64_t seed = 1;
  /// Replace what is there.
  bool overwrite = false;
  /// Bytes written and bytes that there will be.
  std::function<void(uint64_t, uint64_t)> on_progress;
};

struct MadeNetwork {
  std::string description_path;
  std::string weights_path;
  Network network;
};

Result<MadeNetwork> make_network(const MakeNetworkOptions& options);

/// A layer's part of the .weights file: raw_bytes() of it.
std::vector<float> make_raw_layer(const Layer& layer, const WeightScale& scale, uint64_t seed);

}  // namespace weightpager::network
