#include "runtime/network/weight_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/network/checksum.h"
#include "runtime/network/float_reader.h"
#include "runtime/network/packed_file.h"

namespace weightpager::network {
namespace {

// The checksum of the checksums of slices; each thread takes a slice when it is free.
constexpr size_t slice_bytes = 64 * KiB;
uint64_t checksum_of_slices(std::span<const std::byte> bytes, int threads) {
  std::vector<uint64_t> sums((bytes.size() + slice_bytes - 1) / slice_bytes);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (sums.size() > 1)
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto rest = bytes.subspan(i * slice_bytes);
    sums[i] = checksum(rest.first(std::min(rest.size(), slice_bytes)));
  }
  return checksum(std::as_bytes(std::span(sums)));
}

// Each factor belongs to equally many weights.
void scale(std::span<const float> factors, std::span<float> weights, int threads) {
  const size_t terms = weights.size() / factors.size();
  const size_t parts = weights.size_bytes() > slice_bytes ? static_cast<size_t>(threads) : 1;
#pragma omp parallel for schedule(static) num_threads(threads) if (parts > 1)
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = factors.size() * part / parts;
    const size_t count = factors.size() * (part + 1) / parts - begin;
    if (count == 0) continue;
    scale_channels(weights.subspan(begin * terms, count * terms), factors.subspan(begin, count));
  }
}

bool has_connected(const Network& network) {
  return std::any_of(network.layers.begin(), network.layers.end(), [](const Layer& layer) {
    return std::holds_alternative<Connected>(layer.operation);
  });
}

}  // namespace

struct WeightSource::Checksum {
  XXH3_state_t* state = XXH3_createState();
  ~Checksum() { XXH3_freeState(state); }
};

void WeightSource::FreeChecksum::operator()(Checksum* it) const { delete it; }

WeightSource::WeightSource() : running_(new Checksum) {}

Result<WeightSource> WeightSource::open(const std::string& path, const Network& network,
                                        const WeightForms& forms) {
  Result<model::HeaderReader> reader = model::HeaderReader::open(path);
  if (!reader) return forward_error(std::move(reader));
  WeightSource source;
  source.path_ = path;
  source.is_packed_ = begins_packed(*reader);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const bool is_plain = forms.empty() || forms[i].name.empty();
    if (!source.is_packed_ && !is_plain) {
      return fail(fmt::format("{}: {} is to be computed by {}, for which weights have to be packed",
                              path, describe_layer(network, i), forms[i].name),
                  "weightpager model pack NET.cfg NET.weights --plan PLAN.json -o FILE, and give "
                  "FILE");
    }
    source.layers_.push_back(
        {.channels = static_cast<uint32_t>(layer.channels_with_bias()),
         .weight_bytes = is_plain ? layer.weights() * sizeof(float) : forms[i].size_bytes,
         .is_plain = is_plain,
         .can_be_cut = is_plain && network::can_be_cut(layer)});
  }
  Status placed = source.is_packed_ ? source.place_packed(*reader, network, forms)
                                    : source.place_raw(*reader, network);
  if (!placed) return forward_error(std::move(placed));
  return source;
}

Status WeightSource::place_packed(model::HeaderReader& reader, const Network& network,
                                  const WeightForms& forms) {
  Result<std::vector<PackedPlace>> places = read_packed_index(reader, network, forms);
  if (!places) return forward_error(std::move(places));
  const FloatReader floats(path_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    PlacedLayer& layer = layers_[i];
    const PackedPlace& place = (*places)[i];
    layer.where =
        fmt::format("{}, byte {}, {}", path_, place.offset_bytes, describe_layer(network, i));
    layer.offset_bytes = place.offset_bytes;
    layer.checksum = place.checksum;
    Result<std::vector<float>> biases =
        floats.read(place.offset_bytes + layer.weight_bytes, layer.channels);
    if (!biases) return forward_error(std::move(biases));
    layer.biases = std::move(*biases);
  }
  return {};
}

Status WeightSource::place_raw(model::HeaderReader& reader, const Network& network) {
  Result<RawPlaces> places = place_raw_weights(reader, network);
  if (!places) return forward_error(std::move(places));
  if (places->is_transposed && has_connected(network))
    return fail(fmt::format("{}, byte 0: expected connected layers by output, found an old file "
                            "that has them by input",
                            path_),
                "turn them once: weightpager model pack NET.cfg NET.weights -o FILE");
  const FloatReader floats(path_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    PlacedLayer& layer = layers_[i];
    const RawParts parts = raw_parts(network.layers[i]);
    const uint64_t offset_bytes = places->offsets_bytes[i];
    layer.where = fmt::format("{}, byte {}, {}", path_, offset_bytes, describe_layer(network, i));
    layer.offset_bytes = offset_bytes + parts.weights * sizeof(float);
    const auto read = [&](uint64_t part, uint64_t count) {
      return floats.read(offset_bytes + part * sizeof(float), count);
    };
    Result<std::vector<float>> biases = read(parts.biases, layer.channels);
    if (!biases) return forward_error(std::move(biases));
    layer.biases = std::move(*biases);
    if (!network.layers[i].is_batch_normalized()) continue;
    // Scales, means and variances lie in a row.
    Result<std::vector<float>> normalization = read(parts.scales, 3 * uint64_t{layer.channels});
    if (!normalization) return forward_error(std::move(normalization));
    layer.factors.resize(layer.channels);
    if (Status folded = fold_channels(layer.biases, *normalization, layer.factors, layer.where);
        !folded)
      return folded;
  }
  return {};
}

const float* WeightSource::biases(uint32_t layer) const {
  const std::vector<float>& it = layers_.at(layer).biases;
  return it.empty() ? nullptr : it.data();
}

FileRange WeightSource::range(const Piece& piece) const {
  const PlacedLayer& layer = layers_.at(piece.layer);
  if (layer.channels == 0) return {};
  WP_ASSERT(piece.first_channel < piece.end_channel && piece.end_channel <= layer.channels);
  const uint64_t begin = layer.offset_bytes + bytes_before(layer, piece.first_channel);
  const uint64_t end = layer.offset_bytes + bytes_before(layer, piece.end_channel);
  const uint64_t start = round_down(begin, os_page_bytes);
  return {start, round_up(end, os_page_bytes) - start, end - start};
}

uint64_t WeightSource::bytes_before(const PlacedLayer& layer, uint32_t channel) {
  if (channel == layer.channels) return layer.weight_bytes;
  WP_ASSERT(channel == 0 || layer.is_plain);
  return layer.weight_bytes / layer.channels * channel;
}

Result<const float*> WeightSource::take_in(const Piece& piece, std::span<std::byte> bytes,
                                           int threads) {
  PlacedLayer& layer = layers_.at(piece.layer);
  if (layer.channels == 0) return nullptr;
  const uint64_t length_bytes =
      bytes_before(layer, piece.end_channel) - bytes_before(layer, piece.first_channel);
  WP_ASSERT(bytes.size() >= range(piece).needed_bytes);
  // The caller lets take_in write to `bytes`.
  auto* const weights = const_cast<float*>(weights_in(piece, bytes.data()));
  WP_ASSERT(reinterpret_cast<uintptr_t>(weights) % alignof(float) == 0);
  const std::span<std::byte> own = {reinterpret_cast<std::byte*>(weights), length_bytes};
  if (is_packed_) {
    if (Status right = check(layer, piece, own, threads); !right)
      return forward_error(std::move(right));
  } else if (!layer.factors.empty()) {
    scale(std::span(layer.factors)
              .subspan(piece.first_channel, piece.end_channel - piece.first_channel),
          {weights, length_bytes / sizeof(float)}, threads);
  }
  return weights;
}

const float* WeightSource::weights_in(const Piece& piece, const std::byte* bytes) const {
  const PlacedLayer& layer = layers_.at(piece.layer);
  if (layer.channels == 0) return nullptr;
  const uint64_t length_bytes =
      bytes_before(layer, piece.end_channel) - bytes_before(layer, piece.first_channel);
  return reinterpret_cast<const float*>(bytes + range(piece).needed_bytes - length_bytes);
}

Status WeightSource::check(PlacedLayer& layer, const Piece& piece,
                           std::span<const std::byte> weights, int threads) {
  const auto known = std::find_if(layer.known_pieces.begin(), layer.known_pieces.end(),
                                  [&](const KnownPiece& it) { return it.piece == piece; });
  if (known == layer.known_pieces.end()) return check_whole(layer, piece, weights, threads);
  return compare_checksums(known->checksum, checksum_of_slices(weights, threads), layer.where);
}

Status WeightSource::check_whole(PlacedLayer& layer, const Piece& piece,
                                 std::span<const std::byte> weights, int threads) {
  XXH3_state_t* const state = running_->state;
  if (piece.first_channel == 0) {
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, layer.biases.data(), layer.biases.size() * sizeof(float));
    pieces_so_far_.clear();
    // If the layer is now cut in another way, a known piece that is the same would leave a gap in
    // the checksum, and the other pieces would stay unchecked.
    layer.known_pieces.clear();
  } else if (!follows(piece)) {
    return fail(layer.where + ": its pieces came in no order in which they can be checked",
                "a defect of this program: tell its makers; no output came of it");
  }
  XXH3_64bits_update(state, weights.data(), weights.size());
  pieces_so_far_.push_back({piece, checksum_of_slices(weights, threads)});
  if (piece.end_channel < layer.channels) return {};
  Status right = compare_checksums(layer.checksum, XXH3_64bits_digest(state), layer.where);
  if (right) layer.known_pieces = pieces_so_far_;
  return right;
}

bool WeightSource::follows(const Piece& piece) const {
  if (pieces_so_far_.empty()) return false;
  const Piece& before = pieces_so_far_.back().piece;
  return before.layer == piece.layer && before.end_channel == piece.first_channel;
}

void WeightSource::forget_pieces() {
  for (PlacedLayer& it : layers_) it.known_pieces.clear();
  pieces_so_far_.clear();
}

}  // namespace weightpager::network
