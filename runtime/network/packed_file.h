// Packed weights: a network's weights, ready to be read a layer at a time.
//
// A .weights file says nothing about itself, its layers begin anywhere, and batch normalization has
// to be folded in every pass. A packed file has every layer folded, at a multiple of 4 KiB, as
// direct reads need it, and with a checksum. It has an index with a checksum of its own. And it has
// a fingerprint of the network, so that weights are not taken for another network's.
// docs/reference/packed_weights.md describes the file byte by byte. Cost: packing reads and writes
// the weights once, with the largest layer in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/header_reader.h"
#include "runtime/network/network.h"

namespace weightpager::network {

inline constexpr std::string_view packed_magic = "WPPACKED";

/// The form of a layer's weights: Darknet's, or the one that a plan's candidate takes
/// (plan/layer_choice.h).
struct WeightForm {
  /// "" is Darknet's form.
  std::string name;
  /// The bytes of the weights, without biases. In Darknet's form, those of the layer's floats.
  uint64_t size_bytes = 0;
};
/// By layer. Empty: all weights are in Darknet's form.
using WeightForms = std::vector<WeightForm>;

/// The place of one layer in a packed file: its weights, then its biases. All zeros for a layer
/// without weights.
struct PackedPlace {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  /// XXH3-64 of the biases, then the weights.
  uint64_t checksum = 0;
};

/// XXH3-64 of everything that decides which weights belong where: the kinds of the layers, in
/// order, the sizes of the layers with weights, and their forms. The network's input may be larger
/// or smaller, as long as that changes no connected layer.
uint64_t fingerprint(const Network& network, const WeightForms& forms = {});

uint64_t checksum(std::span<const std::byte> bytes);
/// As in PackedPlace.
uint64_t checksum_of_layer(std::span<const float> biases, std::span<const float> weights);
/// Fails if the two differ. The error names the place, `where`.
Status compare_checksums(uint64_t expected, uint64_t found, const std::string& where);

/// Whether the file is a packed one. The reader must be at the file's start.
bool begins_packed(model::HeaderReader& reader);

/// Reads the index of a packed file. Fails unless the file was made from this network in these
/// forms, and is complete and undamaged. The reader must be at the file's start.
Result<std::vector<PackedPlace>> read_packed_index(model::HeaderReader& reader,
                                                   const Network& network,
                                                   const WeightForms& forms);

struct PackOptions {
  /// A .weights file, or a packed one in Darknet's form.
  std::string weights_path;
  std::string output_path;
  /// Whether to replace a file at `output_path`.
  bool overwrite = false;
  WeightForms forms;
  /// Brings a layer's folded weights from Darknet's form into another one. `plain` and `formed`
  /// have room for the weights in their forms; `formed` begins at a multiple of 64.
  std::function<Status(uint32_t layer, const float* plain, float* formed)> bring_into_form;
  /// Called with the bytes written so far and the bytes of the whole file.
  std::function<void(uint64_t, uint64_t)> on_progress;
};

/// Makes a packed file from another weights file, under a temporary name until it is complete.
/// Returns its size.
Result<uint64_t> pack_weights(const Network& network, const PackOptions& options);

}  // namespace weightpager::network
