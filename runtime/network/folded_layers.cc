#include "runtime/network/folded_layers.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace weightpager::network {

Result<FoldedLayers> FoldedLayers::open(const std::string& path, const Network& network) {
  Result<model::HeaderReader> reader = model::HeaderReader::open(path);
  if (!reader) return forward_error(std::move(reader));
  FoldedLayers layers(path, network);
  if (begins_packed(*reader)) {
    Result<std::vector<PackedPlace>> places = read_packed_index(*reader, network, {});
    if (!places) return forward_error(std::move(places));
    layers.packed_ = std::move(*places);
    return layers;
  }
  Result<RawPlaces> places = place_raw_weights(*reader, network);
  if (!places) return forward_error(std::move(places));
  layers.raw_ = std::move(*places);
  return layers;
}

Result<LayerWeights> FoldedLayers::read(uint32_t layer) {
  if (network_->layers[layer].folded_bytes() == 0) return LayerWeights{};
  return packed_.empty() ? read_raw(layer) : read_packed(layer);
}

Result<LayerWeights> FoldedLayers::read_packed(uint32_t layer) {
  const PackedPlace& place = packed_[layer];
  Result<std::vector<float>> floats =
      reader_.read(place.offset_bytes, place.size_bytes / sizeof(float));
  if (!floats) return forward_error(std::move(floats));
  floats_ = std::move(*floats);
  const uint64_t weights = network_->layers[layer].weights();
  const std::span<const float> all(floats_);
  const Status right = compare_checksums(
      place.checksum, checksum_of_layer(all.subspan(weights), all.first(weights)),
      fmt::format("{}, byte {}, {}", path_, place.offset_bytes, describe_layer(*network_, layer)));
  if (!right) return tl::make_unexpected(right.error());
  return LayerWeights{floats_.data() + weights, floats_.data()};
}

Result<LayerWeights> FoldedLayers::read_raw(uint32_t layer) {
  const Layer& it = network_->layers[layer];
  const uint64_t offset_bytes = raw_.offsets_bytes[layer];
  Result<std::vector<float>> floats = reader_.read(offset_bytes, it.raw_bytes() / sizeof(float));
  if (!floats) return forward_error(std::move(floats));
  floats_ = std::move(*floats);
  if (raw_.is_transposed && std::holds_alternative<Connected>(it.operation)) {
    transpose_connected(it, floats_);
  }
  return fold(
      it, floats_,
      fmt::format("{}, byte {}, {}", path_, offset_bytes, describe_layer(*network_, layer)));
}

}  // namespace weightpager::network
