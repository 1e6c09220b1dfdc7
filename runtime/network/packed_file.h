// Packed weights: a network's weights made ready to be read a layer at a time.
//
// A .weights file says nothing about itself, its layers begin anywhere, and batch normalization has
// to be folded in every pass. A packed file has every layer at a multiple of 4 KiB, as direct reads
// want them, folded, with a checksum each; an index, which has a checksum of its own; and a
// fingerprint of the network, so that weights are not taken for another network's.
// docs/reference/packed_weights.md describes it byte by byte. Cost: packing reads and writes the
// weights once, with the largest layer in memory.
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

/// How the weights of a layer are arranged where that is not Darknet's way: for a candidate of a
/// plan (plan/layer_choice.h).
struct WeightForm {
  /// "": Darknet's way.
  std::string name;
  /// Without biases; of Darknet's way as many as there are.
  uint64_t size_bytes = 0;
};
/// By layer; empty: all Darknet's way.
using WeightForms = std::vector<WeightForm>;

/// Of one layer in a packed file: weights, and behind them biases. All zeros without weights.
struct PackedPlace {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  /// XXH3-64 of the biases, then the weights.
  uint64_t checksum = 0;
};

/// XXH3-64 of what decides which weights belong where: the kinds of the layers, in order, the
/// sizes of those with weights, and their forms. The network's input may be larger or smaller, as
/// long as no connected layer sees that.
uint64_t fingerprint(const Network& network, const WeightForms& forms = {});

uint64_t checksum(std::span<const std::byte> bytes);
/// What PackedPlace has.
uint64_t checksum_of_layer(std::span<const float> biases, std::span<const float> weights);
/// The error names the place, `where`.
Status compare_checksums(uint64_t expected, uint64_t found, const std::string& where);

/// Whether it is a packed file at all. Requires that the reader is at the file's start.
bool begins_packed(model::HeaderReader& reader);

/// Reads and checks the index of a packed file: made from this network in these forms, complete,
/// undamaged. Requires that the reader is at the file's start.
Result<std::vector<PackedPlace>> read_packed_index(model::HeaderReader& reader,
                                                   const Network& network,
                                                   const WeightForms& forms);

struct PackOptions {
  /// A .weights file, or a packed one in Darknet's way.
  std::string weights_path;
  std::string output_path;
  /// Replace what is at `output_path`.
  bool overwrite = false;
  WeightForms forms;
  /// Brings a layer's folded weights into a form that is not Darknet's: both have room for what
  /// they are, `formed` begins at a multiple of 64.
  std::function<Status(uint32_t layer, const float* plain, float* formed)> bring_into_form;
  /// Bytes written and bytes that there will be.
  std::function<void(uint64_t, uint64_t)> on_progress;
};

/// Makes a packed file from another weights file, under a temporary name until it is complete.
/// Returns its size.
Result<uint64_t> pack_weights(const Network& network, const PackOptions& options);

}  // namespace weightpager::network
