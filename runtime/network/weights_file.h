// Darknet's own weights files (.weights): where each layer's floats lie, and what is made of them.
//
// A .weights file is a short header and every layer's floats, nothing else: no names, no sizes. A
// file of another network looks like any other, so its size has to be exact. What batch
// normalization does at inference, scaling and shifting each channel, is folded into the biases and
// weights where they lie, so that a layer is applied straight from the bytes that were read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/header_reader.h"
#include "runtime/network/network.h"

namespace weightpager::network {

/// The parts of a layer with weights, as places among the layer's own floats. Without batch
/// normalization the middle three are empty. Every part but the weights has one float per channel.
struct RawParts {
  uint64_t biases = 0;
  uint64_t scales = 0;
  uint64_t means = 0;
  uint64_t variances = 0;
  uint64_t weights = 0;
};
RawParts raw_parts(const Layer& layer);

struct RawPlaces {
  /// Files from before 2015: the weights of connected layers are [input][output].
  bool is_transposed = false;
  /// Of each layer's first byte; where the next one begins for a layer without weights.
  std::vector<uint64_t> offsets_bytes;
};

/// Reads the header of a .weights file, of any version, and checks that the file ends where the
/// last layer does. Leaves the reader at the first layer. Requires that it is at the file's start.
Result<RawPlaces> place_raw_weights(model::HeaderReader& reader, const Network& network);

/// A layer's parameters with batch normalization folded; null for a layer without weights. Of a
/// convolutional layer: [filter][channel of the group][row][column], of a connected one:
/// [output][input].
struct LayerWeights {
  const float* biases = nullptr;
  const float* weights = nullptr;
};

/// What batch normalization comes to, by channel: `biases` become those of the folded layer, and
/// `factors` what its weights are to be multiplied with. `normalization`: scales, means and
/// variances, in a row. Numbers that cannot be divided, as negative variances are, are an error;
/// `where` names the layer in it. The same floats give the same bits on every machine.
Status fold_channels(std::span<float> biases, std::span<const float> normalization,
                     std::span<float> factors, const std::string& where);
/// Multiplies each channel's weights, of which there are equally many, with its factor.
void scale_channels(std::span<float> weights, std::span<const float> factors);

/// Folds a whole layer in place. Requires `raw_bytes()` of the layer as the file has them.
Result<LayerWeights> fold(const Layer& layer, std::span<float> raw, const std::string& where);

/// Turns the [input][output] weights of a connected layer around. Takes as much memory again.
void transpose_connected(const Layer& layer, std::span<float> raw);

}  // namespace weightpager::network
