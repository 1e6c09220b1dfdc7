#include "runtime/network/layer_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/network/packed_file.h"

namespace weightpager::network {
namespace {

bool begins_packed(model::HeaderReader& reader) {
  std::array<std::byte, packed_magic.size()> start{};
  const size_t length = reader.peek_start(start);
  return std::string_view(reinterpret_cast<const char*>(start.data()), length) == packed_magic;
}

bool has_connected(const Network& network) {
  return std::any_of(network.layers.begin(), network.layers.end(), [](const Layer& layer) {
    return std::holds_alternative<Connected>(layer.operation);
  });
}

}  // namespace

Result<LayerSource> LayerSource::open(const std::string& path, const Network& network) {
  Result<model::HeaderReader> reader = model::HeaderReader::open(path);
  if (!reader) return forward_error(std::move(reader));
  LayerSource source;
  source.path_ = path;
  source.is_packed_ = begins_packed(*reader);
  if (source.is_packed_) {
    Result<std::vector<PackedPlace>> places = read_packed_index(*reader, network);
    if (!places) return forward_error(std::move(places));
    for (const PackedPlace& it : *places)
      source.place(network, it.offset_bytes, it.size_bytes, it.checksum);
    return source;
  }
  Result<RawPlaces> places = place_raw_weights(*reader, network);
  if (!places) return forward_error(std::move(places));
  if (places->is_transposed && has_connected(network))
    return fail(fmt::format("{}, byte 0: expected connected layers by output, found an old file "
                            "that has them by input",
                            path),
                "turn them once: weightpager model pack NET.cfg NET.weights -o FILE");
  for (size_t i = 0; i < network.layers.size(); ++i)
    source.place(network, places->offsets_bytes[i], network.layers[i].raw_bytes(), 0);
  return source;
}

void LayerSource::place(const Network& network, uint64_t offset_bytes, uint64_t size_bytes,
                        uint64_t checksum_of_it) {
  const size_t layer = layers_.size();
  layers_.push_back(
      {network.layers[layer], offset_bytes, size_bytes, checksum_of_it,
       fmt::format("{}, byte {}, {}", path_, offset_bytes, describe_layer(network, layer))});
}

FileRange LayerSource::range(size_t layer) const {
  const PlacedLayer& placed = layers_.at(layer);
  if (placed.size_bytes == 0) return {};
  const uint64_t start = round_down(placed.offset_bytes, os_page_bytes);
  const uint64_t end = round_up(placed.offset_bytes + placed.size_bytes, os_page_bytes);
  return {start, end - start};
}

Result<LayerWeights> LayerSource::take_in(size_t layer, std::span<std::byte> bytes) const {
  const PlacedLayer& placed = layers_.at(layer);
  if (placed.size_bytes == 0) return LayerWeights{};
  const uint64_t start = placed.offset_bytes % os_page_bytes;
  WP_ASSERT(bytes.size() >= start + placed.size_bytes);
  const std::span<std::byte> own = bytes.subspan(start, placed.size_bytes);
  auto* const floats = reinterpret_cast<float*>(own.data());
  WP_ASSERT(reinterpret_cast<uintptr_t>(floats) % alignof(float) == 0);
  if (!is_packed_) return fold(placed.layer, {floats, own.size() / sizeof(float)}, placed.where);
  if (checksum(own) != placed.checksum)
    return fail(fmt::format("{}: expected the checksum {:016x}, found {:016x}", placed.where,
                            placed.checksum, checksum(own)),
                "the file is damaged, or the disk gave other bytes: copy or pack it again");
  return LayerWeights{floats, floats + placed.layer.channels_with_bias()};
}

}  // namespace weightpager::network
