// Darknet's own weights files (.weights): where each layer's floats lie, and how they are folded.
//
// A .weights file has a short header and every layer's floats, and nothing else: no names, no
// sizes. A file of another network looks the same, so the size has to be exact. At inference, batch
// normalization scales and shifts each channel. This is folded into the biases and weights where
// they lie, so that a layer can be computed straight from the bytes that were read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/header_reader.h"
#include "runtime/network/network.h"

namespace weightpager::network {

/// The parts of a layer with weights: where each begins among the layer's own floats. Without batch
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
  /// The offset of each layer's first byte; for a layer without weights, that of the next layer.
  std::vector<uint64_t> offsets_bytes;
};

/// Reads the header of a .weights file, of any version, and checks that the file ends where the
/// last layer does. The reader must be at the file's start; it is left at the first layer.
Result<RawPlaces> place_raw_weights(model::HeaderReader& reader, const Network& network);

/// A layer's parameters with batch normalization folded; null for a layer without weights. The
/// weights are [filter][channel of the group][row][column] for a convolutional layer, and
/// [output][input] for a connected one.
struct LayerWeights {
  const float* biases = nullptr;
  const float* weights = nullptr;
};

/// Folds batch normalization, by channel: `biases` become those of the folded layer, and `factors`
/// the factors of its weights. `normalization` has scales, means and variances, in a row. Fails if
/// numbers cannot be divided (negative variances, for instance); the error names the layer,
/// `where`. The same floats give the same bits on every machine.
Status fold_channels(std::span<float> biases, std::span<const float> normalization,
                     std::span<float> factors, const std::string& where);
/// Multiplies each channel's weights by its factor. All channels have equally many weights.
void scale_channels(std::span<float> weights, std::span<const float> factors);

/// Folds a whole layer in place. `raw` has `raw_bytes()` of the layer as they are in the file.
Result<LayerWeights> fold(const Layer& layer, std::span<float> raw, const std::string& where);

/// Transposes the [input][output] weights of a connected layer. Takes as much memory again.
void transpose_connected(const Layer& layer, std::span<float> raw);

}  // namespace weightpager::network
