#include "runtime/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace weightpager::network {
namespace {

// Major and minor version and revision, and the number of images seen.
constexpr uint64_t weights_header_bytes = 3 * sizeof(int32_t) + sizeof(uint64_t);

const Convolutional* convolutional(const Layer& layer) {
  return std::get_if<Convolutional>(&layer.operation);
}
const Connected* connected(const Layer& layer) { return std::get_if<Connected>(&layer.operation); }

}  // namespace

uint64_t Layer::channels_with_bias() const {
  if (const Convolutional* it = convolutional(*this)) return it->filters;
  if (const Connected* it = connected(*this)) return it->outputs;
  return 0;
}

uint64_t Layer::weights() const {
  if (const Convolutional* it = convolutional(*this)) {
    return uint64_t{it->filters} * (input.channels / it->groups) * it->size * it->size;
  }
  if (const Connected* it = connected(*this)) return it->outputs * input.elements();
  return 0;
}

bool Layer::is_batch_normalized() const {
  if (const Convolutional* it = convolutional(*this)) return it->is_batch_normalized;
  if (const Connected* it = connected(*this)) return it->is_batch_normalized;
  return false;
}

uint64_t Layer::raw_bytes() const {
  const uint64_t floats_per_channel = is_batch_normalized() ? 4 : 1;
  return (floats_per_channel * channels_with_bias() + weights()) * sizeof(float);
}

uint64_t Layer::folded_bytes() const { return (channels_with_bias() + weights()) * sizeof(float); }

uint64_t Network::weights_file_bytes() const {
  return std::accumulate(layers.begin(), layers.end(), weights_header_bytes,
                         [](uint64_t sum, const Layer& it) { return sum + it.raw_bytes(); });
}

uint64_t Network::folded_bytes() const {
  return std::accumulate(layers.begin(), layers.end(), uint64_t{0},
                         [](uint64_t sum, const Layer& it) { return sum + it.folded_bytes(); });
}

uint64_t Network::largest_folded_bytes() const {
  uint64_t largest = 0;
  for (const Layer& layer : layers) largest = std::max(largest, layer.folded_bytes());
  return largest;
}

const char* section_name(const Operation& operation) {
  constexpr std::array names = {"convolutional", "connected", "maxpool",  "avgpool",
                                "dropout",       "route",     "shortcut", "upsample",
                                "yolo",          "softmax",   "cost",     "crop"};
  static_assert(names.size() == std::variant_size_v<Operation>);
  return names[operation.index()];
}

std::string describe_layer(const Network& network, size_t layer) {
  return fmt::format("layer {} ({}, line {})", layer, section_name(network.layers[layer].operation),
                     network.layers[layer].line);
}

Error about_layer(const Network& network, uint32_t number, Error error) {
  error.message = fmt::format("{}: {}", describe_layer(network, number), error.message);
  return error;
}

bool can_be_cut(const Layer& layer) {
  if (const auto* it = std::get_if<Convolutional>(&layer.operation)) return it->groups == 1;
  return layer.weights() > 0;
}

const char* activation_name(Activation activation) {
  constexpr std::array names = {"linear", "leaky", "relu", "logistic", "mish", "swish"};
  return names[static_cast<size_t>(activation)];
}

Activation activation_of(const Layer& layer) {
  if (const auto* it = std::get_if<Convolutional>(&layer.operation)) return it->activation;
  if (const auto* it = std::get_if<Shortcut>(&layer.operation)) return it->activation;
  if (const auto* it = std::get_if<Connected>(&layer.operation)) return it->activation;
  return Activation::linear;
}

}  // namespace weightpager::network
