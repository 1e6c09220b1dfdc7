// Choosing and writing random weights: see make_network.h.
//
// Weights are drawn around 0. Their deviation is He's, √(2 / inputs), where batch normalization
// follows; elsewhere, outputs get the deviation 1. Batch normalization has to divide by values that
// a trained network would have seen, or activations would explode or vanish: in a ResNet every
// shortcut adds its share. So the mean and the mean square of the activations are
// followed through the network. Within a layer, numbers count as independent and normally
// distributed.
#include "runtime/network/synthetic/make_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "pager/base/assert.h"
#include "pager/base/made_file.h"
#include "pager/base/memory_room.h"
#include "pager/model/synthetic/weights.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/network/weights_file.h"

namespace weightpager::network {
namespace {

namespace fs = std::filesystem;

// Half widths of the uniform distributions around the exact values.
constexpr double scale_noise = 0.1;
constexpr double variance_noise = 0.2;
/// For means in units of the deviation, for biases in units of 1.
constexpr double shift_noise = 0.1;

constexpr float objectness_bias = -3;

/// Mean and mean square of a layer's outputs.
struct Signal {
  double mean = 0;
  double square = 1;

  double variance() const { return std::max(square - mean * mean, 1e-12); }
};

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::leaky:
      return x > 0 ? x : 0.1 * x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::logistic:
      return 1 / (1 + std::exp(-x));
    case Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::swish:
      return x / (1 + std::exp(-x));
  }
  WP_ASSERT(false);
}

/// The result of an activation on a normal distribution, summed up at 241 places.
Signal activated(const Signal& signal, Activation activation) {
  constexpr int steps = 120;
  const double deviation = std::sqrt(signal.variance());
  Signal result{0, 0};
  double weights = 0;
  for (int i = -steps; i <= steps; ++i) {
    const double place = 6.0 * i / steps;
    const double weight = std::exp(-place * place / 2);
    const double value = activate(activation, signal.mean + deviation * place);
    weights += weight;
    result.mean += weight * value;
    result.square += weight * value * value;
  }
  return {result.mean / weights, result.square / weights};
}

/// The share of a window's rows that lies inside of the input, on average.
double share_inside(uint32_t extent, const Convolutional& it, uint32_t windows) {
  int64_t inside = 0;
  for (int64_t window = 0; window < windows; ++window) {
    const int64_t start = window * it.stride - it.padding;
    inside +=
        std::clamp<int64_t>(extent - start, 0, it.size) - std::clamp<int64_t>(-start, 0, it.size);
  }
  return static_cast<double>(inside) / (static_cast<double>(windows) * it.size);
}

/// The number of inputs that an output adds up.
double inputs_of_output(const Layer& layer) {
  const auto* const it = std::get_if<Convolutional>(&layer.operation);
  const double inputs =
      static_cast<double>(layer.weights()) / static_cast<double>(layer.channels_with_bias());
  if (it == nullptr) return inputs;
  return inputs * share_inside(layer.input.height, *it, layer.output.height) *
         share_inside(layer.input.width, *it, layer.output.width);
}

/// The output of batch normalization with noisy parameters.
Signal normalized() {
  const double mean_of_inverse_variance =
      std::log((1 + variance_noise) / (1 - variance_noise)) / (2 * variance_noise);
  const double square_of_scale = 1 + scale_noise * scale_noise / 3;
  const double square_of_shift = shift_noise * shift_noise / 3;
  return {0, square_of_scale * mean_of_inverse_variance * (1 + square_of_shift) + square_of_shift};
}

/// Follows the activations; one call for each layer, in order.
class SignalFollower {
 public:
  explicit SignalFollower(const Network& network) : network_(network) {}

  WeightScale next() {
    const Layer& layer = network_.layers[signals_.size()];
    WeightScale scale;
    signals_.push_back(
        std::visit([&](const auto& it) { return pass(layer, it, scale); }, layer.operation));
    return scale;
  }

 private:
  /// An image's numbers, from 0 to 1.
  Signal signal(uint32_t layer) const {
    return layer == network_input ? Signal{0.5, 0.33} : signals_[layer];
  }
  Signal first(const Layer& layer) const { return signal(layer.inputs.front()); }

  template <typename Weighted>
  Signal weighted(const Layer& layer, const Weighted& it, WeightScale& scale) const {
    const double inputs = inputs_of_output(layer);
    const double square = first(layer).square;
    const double variance_of_weights = it.is_batch_normalized ? 2 / inputs : 1 / (inputs * square);
    scale.weight_deviation = static_cast<float>(std::sqrt(variance_of_weights));
    scale.variance = static_cast<float>(variance_of_weights * inputs * square);
    const Signal before =
        it.is_batch_normalized ? normalized() : Signal{0, 1 + shift_noise * shift_noise / 3};
    return activated(before, it.activation);
  }
  Signal pass(const Layer& layer, const Convolutional& it, WeightScale& scale) const {
    const size_t next = signals_.size() + 1;
    const Yolo* const yolo = next < network_.layers.size()
                                 ? std::get_if<Yolo>(&network_.layers[next].operation)
                                 : nullptr;
    if (yolo != nullptr) {
      scale.box_channels = yolo->classes + 5;
      scale.objectness_bias = objectness_bias;
    }
    return weighted(layer, it, scale);
  }
  Signal pass(const Layer& layer, const Connected& it, WeightScale& scale) const {
    return weighted(layer, it, scale);
  }
  /// Roughly the largest of so many numbers that are normally distributed, but not independent.
  Signal pass(const Layer& layer, const MaxPool& it, WeightScale& /*scale*/) const {
    const Signal input = first(layer);
    const double mean = input.mean + 1.2 * std::log(it.size) * std::sqrt(input.variance());
    return {mean, mean * mean + input.variance() / 2};
  }
  /// Channels have means of their own, so averaging takes away only part of the variance.
  Signal pass(const Layer& layer, const AveragePool& /*it*/, WeightScale& /*scale*/) const {
    const Signal input = first(layer);
    return {input.mean, input.mean * input.mean + input.variance() / 3};
  }
  Signal pass(const Layer& layer, const Route& /*it*/, WeightScale& /*scale*/) const {
    Signal sum{0, 0};
    double channels = 0;
    for (const uint32_t number : layer.inputs) {
      const double share = network_.layers[number].output.channels;
      sum.mean += share * signals_[number].mean;
      sum.square += share * signals_[number].square;
      channels += share;
    }
    return {sum.mean / channels, sum.square / channels};
  }
  Signal pass(const Layer& layer, const Shortcut& it, WeightScale& /*scale*/) const {
    const Signal input = first(layer);
    const Signal added = signal(layer.inputs.back());
    const double channels = network_.layers[layer.inputs.back()].output.channels;
    const double share = std::min(1.0, channels / layer.output.channels);
    return activated({input.mean + share * added.mean,
                      input.square + share * (added.square + 2 * input.mean * added.mean)},
                     it.activation);
  }
  Signal pass(const Layer& layer, const Upsample& it, WeightScale& /*scale*/) const {
    const Signal input = first(layer);
    const double scale = static_cast<double>(it.scale);
    return {scale * input.mean, scale * scale * input.square};
  }
  Signal pass(const Layer& layer, const Crop& it, WeightScale& /*scale*/) const {
    const Signal input = first(layer);
    const double scale = static_cast<double>(it.scale);
    const double shift = static_cast<double>(it.shift);
    return {scale * input.mean + shift,
            scale * scale * input.square + 2 * scale * shift * input.mean + shift * shift};
  }
  template <typename Unchanged>
  Signal pass(const Layer& layer, const Unchanged& /*it*/, WeightScale& /*scale*/) const {
    return first(layer);
  }

  const Network& network_;
  std::vector<Signal> signals_;
};

// --- files --------------------------------------------------------------------------------------

Status check_output(const std::string& path, const MakeNetworkOptions& options) {
  std::error_code ignored;
  if (options.overwrite || !fs::exists(path, ignored)) return {};
  return fail(fmt::format("{}: is there already", path),
              "--force replaces it; or give another directory");
}

Status write_file(const std::string& path, std::string_view text) {
  Result<MadeFile> file = MadeFile::create(path, text.size());
  if (!file) return forward_error(std::move(file));
  if (Status status = file->write(0, text); !status) return status;
  return file->commit();
}

/// The version that Darknet has written since 2018, and 32 million images seen. So a program that
/// continues the training knows that it is past its beginning.
struct WeightsHeader {
  int32_t major = 0;
  int32_t minor = 2;
  int32_t revision = 5;
  uint32_t seen_low = 32'000'000;
  uint32_t seen_high = 0;
};
static_assert(sizeof(WeightsHeader) == 20);

Status write_weights(const MadeNetwork& made, const MakeNetworkOptions& options) {
  const uint64_t file_bytes = made.network.weights_file_bytes();
  uint64_t largest_bytes = 0;
  for (const Layer& it : made.network.layers)
    largest_bytes = std::max(largest_bytes, it.raw_bytes());
  Status fits = check_room(
      {.what = made.weights_path + ": making the largest layer", .bytes = largest_bytes}, "");
  if (!fits) return fits;
  Result<MadeFile> file = MadeFile::create(made.weights_path, file_bytes);
  if (!file) return forward_error(std::move(file));
  const WeightsHeader header;
  Status status = file->write(0, {reinterpret_cast<const char*>(&header), sizeof header});
  uint64_t offset_bytes = sizeof header;
  const std::vector<WeightScale> scales = weight_scales(made.network);
  for (size_t i = 0; i < scales.size() && status; ++i) {
    const uint64_t seed = model::tensor_seed(options.seed, fmt::format("layer {}", i));
    const std::vector<float> layer = make_raw_layer(made.network.layers[i], scales[i], seed);
    const auto bytes = std::as_bytes(std::span(layer));
    status = file->write(offset_bytes, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    offset_bytes += bytes.size();
    if (options.on_progress) options.on_progress(offset_bytes, file_bytes);
  }
  if (!status) return status;
  return file->commit();
}

}  // namespace

std::vector<WeightScale> weight_scales(const Network& network) {
  SignalFollower follower(network);
  std::vector<WeightScale> scales;
  for (size_t i = 0; i < network.layers.size(); ++i) scales.push_back(follower.next());
  return scales;
}

std::vector<float> make_raw_layer(const Layer& layer, const WeightScale& scale, uint64_t seed) {
  std::vector<float> raw(layer.raw_bytes() / sizeof(float));
  if (raw.empty()) return raw;
  std::mt19937_64 random(seed);
  // Distributions of the standard library may differ between libraries; this one may not.
  const auto around = [&](double middle, double half_width) {
    const auto bits = static_cast<int32_t>(random() >> 32);
    return static_cast<float>(middle + half_width * (bits * 0x1p-31));
  };
  const RawParts parts = raw_parts(layer);
  const uint64_t channels = layer.channels_with_bias();
  const auto fill = [&](uint64_t start, uint64_t count, double middle, double half_width) {
    for (uint64_t i = start; i < start + count; ++i) raw[i] = around(middle, half_width);
  };
  fill(parts.biases, channels, 0, shift_noise);
  if (layer.is_batch_normalized()) {
    const double variance = scale.variance;
    fill(parts.scales, channels, 1, scale_noise);
    fill(parts.means, channels, 0, shift_noise * std::sqrt(variance));
    fill(parts.variances, channels, variance, variance_noise * variance);
  }
  fill(parts.weights, layer.weights(), 0,
       std::sqrt(3.0) * static_cast<double>(scale.weight_deviation));
  for (uint64_t i = 4; scale.box_channels > 0 && i < channels; i += scale.box_channels)
    raw[parts.biases + i] += scale.objectness_bias;
  return raw;
}

Result<MadeNetwork> make_network(const MakeNetworkOptions& options) {
  Result<std::string> description = make_description(options.name);
  if (!description) return forward_error(std::move(description));
  MadeNetwork made;
  made.description_path = fs::path(options.directory) / (options.name + ".cfg");
  made.weights_path = fs::path(options.directory) / (options.name + ".weights");
  Result<Network> network = parse_network(*description, made.description_path);
  if (!network) return forward_error(std::move(network));
  made.network = std::move(*network);

  std::error_code error;
  fs::create_directories(options.directory, error);
  if (error)
    return fail(
        fmt::format("{}: cannot make the directory: {}", options.directory, error.message()), {},
        error.value());
  for (const std::string& path : {made.description_path, made.weights_path}) {
    if (Status status = check_output(path, options); !status)
      return forward_error(std::move(status));
  }
  Status status = write_weights(made, options);
  if (status) status = write_file(made.description_path, *description);
  if (!status) return forward_error(std::move(status));
  return made;
}

}  // namespace weightpager::network
