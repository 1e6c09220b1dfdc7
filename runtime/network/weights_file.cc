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
  /// The place behind its last float.
  uint64_t end;
};

/// The parts in the order of the file.
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

/// The error for a file that ends inside of the layer.
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

/// Reads the header, and leaves the reader behind it. Returns whether connected layers are
/// transposed.
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

Status fold_channels(std::span<float> biases, std::span<const float> normalization,
                     std::span<float> factors, const std::string& where) {
  const size_t channels = biases.size();
  WP_ASSERT(normalization.size() == 3 * channels && factors.size() == channels);
  const auto scales = normalization.first(channels);
  const auto means = normalization.subspan(channels, channels);
  const auto variances = normalization.last(channels);
  for (size_t i = 0; i < channels; ++i) {
    // On a CPU, Darknet adds its epsilon, a float, to the root.
    const double deviation =
        std::sqrt(static_cast<double>(variances[i])) + static_cast<double>(.000001F);
    const double scale = static_cast<double>(scales[i]) / deviation;
    factors[i] = static_cast<float>(scale);
    const auto bias =
        static_cast<float>(static_cast<double>(biases[i]) - static_cast<double>(means[i]) * scale);
    if (!std::isfinite(factors[i]) || !std::isfinite(bias))
      return fail(fmt::format("{}: expected numbers that can be divided for channel {}, found "
                              "variance {}, scale {}, mean {}, bias {}",
                              where, i, variances[i], scales[i], means[i], biases[i]),
                  "the file is damaged, or not this network's");
    biases[i] = bias;
  }
  return {};
}

void scale_channels(std::span<float> weights, std::span<const float> factors) {
  const size_t weights_of_channel = weights.size() / factors.size();
  for (size_t i = 0; i < factors.size(); ++i)
    for (float& weight : weights.subspan(i * weights_of_channel, weights_of_channel))
      weight *= factors[i];
}

Result<LayerWeights> fold(const Layer& layer, std::span<float> raw, const std::string& where) {
  WP_ASSERT(raw.size_bytes() == layer.raw_bytes());
  if (raw.empty()) return LayerWeights{};
  const RawParts parts = raw_parts(layer);
  const auto biases = raw.subspan(parts.biases, layer.channels_with_bias());
  const auto weights = raw.subspan(parts.weights, layer.weights());
  if (layer.is_batch_normalized()) {
    std::vector<float> factors(biases.size());
    const auto normalization = raw.subspan(parts.scales, 3 * biases.size());
    if (Status folded = fold_channels(biases, normalization, factors, where); !folded)
      return forward_error(std::move(folded));
    scale_channels(weights, factors);
  }
  return LayerWeights{biases.data(), weights.data()};
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

}  // namespace weightpager::network
