// Placing and folding a .weights file's floats: see weights_file.h.
#include "runtime/network/weights_file.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "pager/base/assert.h"

namespace weightpager::network {
namespace {

struct NamedPart {
  const char* name;
  /// Behind its last float.
  uint64_t end;
};

/// In the order of the file.
std::vector<NamedPart> named_parts(const Layer& layer) {
  const RawParts parts = raw_parts(layer);
  const uint64_t channels = layer.channels_with_bias();
  if (!layer.is_batch_normalized())
    return {{"biases", channels}, {"weights", channels + layer.weights()}};
  const NamedPart weights{"weights", parts.weights + layer.weights()};
  std::vector<NamedPart> named = {{"biases", parts.biases + channels},
                                  {"scales", parts.scales + channels},
                                  {"means", parts.means + channels},
                                  {"variances", parts.variances + channels}};
  named.insert(parts.weights < parts.scales ? named.begin() + 1 : named.end(), weights);
  return named;
}

/// The file ends inside of the layer.
tl::unexpected<Error> ends_early(const model::HeaderReader& reader, const Network& network,
                                 size_t layer, uint64_t layer_offset_bytes, uint64_t needed_bytes) {
  const char* name = nullptr;
  for (const NamedPart& part : named_parts(network.layers[layer])) {
    name = part.name;
    if (layer_offset_bytes + part.end * sizeof(float) > reader.size_bytes()) break;
  }
  return fail(
      fmt::format("{}, byte {}: expected more {} of {}, found the end of the file", reader.path(),
                  reader.size_bytes(), name, describe_layer(network, layer)),
      fmt::format("the file is {} bytes shorter than the network needs: it is cut off, or another "
                  "network's",
                  needed_bytes - reader.size_bytes()));
}

tl::unexpected<Error> ends_late(const model::HeaderReader& reader, const Network& network,
                                uint64_t needed_bytes) {
  return fail(
      fmt::format("{}, byte {}: expected the end of the file behind {}, found {} bytes more",
                  reader.path(), needed_bytes, describe_layer(network, network.layers.size() - 1),
                  reader.size_bytes() - needed_bytes),
      "the weights are another network's: give the .cfg that they were trained with");
}

/// Leaves the reader behind the header. Returns whether connected layers are transposed.
bool read_header(model::HeaderReader& reader) {
  const int64_t major = reader.read<int32_t>("a major version");
  const int64_t minor = reader.read<int32_t>("a minor version");
  reader.skip(sizeof(int32_t), "a revision");
  const bool is_transposed = major > 1000 || minor > 1000;
  const bool has_long_count = major * 10 + minor >= 2 && major < 1000 && minor < 1000;
  reader.skip(has_long_count ? sizeof(uint64_t) : sizeof(uint32_t), "the number of images seen");
  return is_transposed;
}

}  // namespace

RawParts raw_parts(const Layer& layer) {
  const uint64_t channels = layer.channels_with_bias();
  RawParts parts;
  if (!layer.is_batch_normalized()) {
    parts.scales = parts.means = parts.variances = parts.weights = channels;
    return parts;
  }
  const bool has_weights_early = std::holds_alternative<Connected>(layer.operation);
  parts.scales = has_weights_early ? channels + layer.weights() : channels;
  parts.means = parts.scales + channels;
  parts.variances = parts.means + channels;
  parts.weights = has_weights_early ? channels : parts.variances + channels;
  return parts;
}

Result<RawPlaces> place_raw_weights(model::HeaderReader& reader, const Network& network) {
  WP_ASSERT(reader.position_bytes() == 0);
  RawPlaces places;
  places.is_transposed = read_header(reader);
  if (!reader.ok()) return reader.take_error();

  uint64_t offset_bytes = reader.position_bytes();
  for (const Layer& layer : network.layers) {
    places.offsets_bytes.push_back(offset_bytes);
    offset_bytes += layer.raw_bytes();
  }
  for (size_t i = 0; i < network.layers.size(); ++i) {
    if (places.offsets_bytes[i] + network.layers[i].raw_bytes() > reader.size_bytes())
      return ends_early(reader, network, i, places.offsets_bytes[i], offset_bytes);
  }
  if (offset_bytes < reader.size_bytes()) return ends_late(reader, network, offset_bytes);
  return places;
}

Result<LayerWeights> fold(const Layer& layer, std::span<float> raw, const std::string& where) {
  WP_ASSERT(raw.size_bytes() == layer.raw_bytes());
  if (raw.empty()) return LayerWeights{};
  const RawParts parts = raw_parts(layer);
  float* const biases = raw.data() + parts.biases;
  float* const weights = raw.data() + parts.weights;
  if (!layer.is_batch_normalized()) return LayerWeights{biases, weights};

  const uint64_t channels = layer.channels_with_bias();
  const uint64_t weights_of_channel = layer.weights() / channels;
  for (uint64_t i = 0; i < channels; ++i) {
    // Darknet on a CPU adds its epsilon, a float, to the root.
    const double deviation =
        std::sqrt(static_cast<double>(raw[parts.variances + i])) + static_cast<double>(.000001F);
    const double scale = static_cast<double>(raw[parts.scales + i]) / deviation;
    const auto factor = static_cast<float>(scale);
    const auto bias = static_cast<float>(static_cast<double>(biases[i]) -
                                         static_cast<double>(raw[parts.means + i]) * scale);
    if (!std::isfinite(factor) || !std::isfinite(bias))
      return fail(fmt::format("{}: expected numbers that can be divided for channel {}, found "
                              "variance {}, scale {}, mean {}, bias {}",
                              where, i, raw[parts.variances + i], raw[parts.scales + i],
                              raw[parts.means + i], biases[i]),
                  "the file is damaged, or not this network's");
    biases[i] = bias;
    for (float& weight : std::span(weights + i * weights_of_channel, weights_of_channel))
      weight *= factor;
  }
  return LayerWeights{biases, weights};
}

void transpose_connected(const Layer& layer, std::span<float> raw) {
  const uint64_t outputs = layer.channels_with_bias();
  const uint64_t inputs = layer.input.elements();
  float* const weights = raw.data() + raw_parts(layer).weights;
  const std::vector<float> turned(weights, weights + layer.weights());
  for (uint64_t output = 0; output < outputs; ++output)
    for (uint64_t input = 0; input < inputs; ++input)
      weights[output * inputs + input] = turned[input * outputs + output];
}

std::string describe_layer(const Network& network, size_t layer) {
  return fmt::format("layer {}, [{}] in line {}", layer,
                     section_name(network.layers[layer].operation), network.layers[layer].line);
}

}  // namespace weightpager::network
