// Writing and checking packed weights: see packed_file.h.
//
// All places follow from the network. So a reader computes them, too, and compares: an index that
// says something else is refused, whatever its checksum says.
#include "runtime/network/packed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "pager/base/anonymous_memory.h"
#include "pager/base/assert.h"
#include "pager/base/made_file.h"
#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "runtime/network/checksum.h"
#include "runtime/network/folded_layers.h"

namespace weightpager::network {
namespace {

constexpr uint32_t version = 2;

/// The beginning of the file. Then come the PackedPlace of every layer, and the checksum of all
/// these.
struct FixedHeader {
  char magic[8];
  uint32_t version = 0;
  uint32_t layers = 0;
  uint64_t fingerprint = 0;
  uint64_t file_bytes = 0;
};
static_assert(sizeof(FixedHeader) == 32 && sizeof(PackedPlace) == 24);

uint64_t index_bytes(const Network& network) {
  return sizeof(FixedHeader) + network.layers.size() * sizeof(PackedPlace);
}

struct Layout {
  /// Checksums are not filled in.
  std::vector<PackedPlace> places;
  uint64_t file_bytes = 0;
};

Layout lay_out(const Network& network, const WeightForms& forms) {
  Layout layout;
  layout.file_bytes = round_up(index_bytes(network) + sizeof(uint64_t), os_page_bytes);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const uint64_t size_bytes =
        forms.empty() ? layer.folded_bytes()
                      : forms[i].size_bytes + layer.channels_with_bias() * sizeof(float);
    layout.places.push_back({size_bytes == 0 ? 0 : layout.file_bytes, size_bytes, 0});
    layout.file_bytes += round_up(size_bytes, os_page_bytes);
  }
  return layout;
}

constexpr std::string_view pack_again =
    "pack the network's weights again: weightpager model pack NET.cfg NET.weights -o FILE";

constexpr std::string_view for_another =
    "the weights were packed for another network or another plan: give its .cfg, and --plan where "
    "they were packed with it";

/// Checks fields of the header that can be wrong although the file is undamaged.
Status check_header(model::HeaderReader& reader, const FixedHeader& header, const Network& network,
                    const WeightForms& forms) {
  const uint64_t expected = fingerprint(network, forms);
  if (header.fingerprint != expected)
    return fail(fmt::format("{}, byte 16: expected weights of a network with the fingerprint "
                            "{:016x}, found {:016x}",
                            reader.path(), expected, header.fingerprint),
                std::string(for_another));
  const uint64_t file_bytes = lay_out(network, forms).file_bytes;
  if (header.file_bytes != file_bytes || reader.size_bytes() != file_bytes)
    return fail(fmt::format("{}, byte 24: expected a file of {} bytes, found {}", reader.path(),
                            file_bytes, reader.size_bytes()),
                "the file is cut off, or something was appended; copy it again");
  return {};
}

Status check_places(const model::HeaderReader& reader, const std::vector<PackedPlace>& places,
                    const Network& network, const WeightForms& forms) {
  const Layout layout = lay_out(network, forms);
  for (size_t i = 0; i < places.size(); ++i) {
    const PackedPlace& expected = layout.places[i];
    if (places[i].offset_bytes != expected.offset_bytes ||
        places[i].size_bytes != expected.size_bytes)
      return fail(fmt::format("{}, byte {}: expected {} of {} bytes at byte {}, found {} at {}",
                              reader.path(), sizeof(FixedHeader) + i * sizeof(PackedPlace),
                              describe_layer(network, i), expected.size_bytes,
                              expected.offset_bytes, places[i].size_bytes, places[i].offset_bytes),
                  std::string(pack_again));
  }
  return {};
}

/// Copies one layer after the other.
class Packer {
 public:
  Packer(const Network& network, const PackOptions& options, FoldedLayers& layers, MadeFile& file)
      : network_(network),
        options_(options),
        layers_(layers),
        file_(file),
        layout_(lay_out(network, options.forms)) {}

  Status run() {
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      if (Status status = pack(i); !status) return status;
    }
    if (Status status = write_index(); !status) return status;
    return file_.commit();
  }

 private:
  Status pack(uint32_t i) {
    const Layer& layer = network_.layers[i];
    if (layer.folded_bytes() == 0) return {};
    Result<LayerWeights> folded = layers_.read(i);
    if (!folded) return forward_error(std::move(folded));
    const std::span biases(folded->biases, layer.channels_with_bias());
    if (options_.forms.empty() || options_.forms[i].name.empty()) {
      return write(layout_.places[i], {folded->weights, layer.weights()}, biases);
    }
    const uint64_t formed_bytes = options_.forms[i].size_bytes;
    Status fits =
        check_room({.what = options_.weights_path + ": packing " + describe_layer(network_, i),
                    .bytes = formed_bytes},
                   "");
    if (!fits) return fits;
    const auto memory = AnonymousMemory::make(formed_bytes, "packed weights",
                                              "leave more memory to weightpager model pack");
    if (!memory) return tl::make_unexpected(memory.error());
    auto* const formed = reinterpret_cast<float*>(memory->at(0));
    Status done = options_.bring_into_form(i, folded->weights, formed);
    if (!done) return done;
    return write(layout_.places[i], {formed, formed_bytes / sizeof(float)}, biases);
  }

  Status write(PackedPlace& place, std::span<const float> weights, std::span<const float> biases) {
    WP_ASSERT(weights.size_bytes() + biases.size_bytes() == place.size_bytes);
    place.checksum = checksum_of_layer(biases, weights);
    if (options_.on_progress)
      options_.on_progress(place.offset_bytes + place.size_bytes, layout_.file_bytes);
    Status written = file_.write(place.offset_bytes, text_of(weights));
    if (!written) return written;
    return file_.write(place.offset_bytes + weights.size_bytes(), text_of(biases));
  }

  static std::string_view text_of(std::span<const float> floats) {
    return {reinterpret_cast<const char*>(floats.data()), floats.size_bytes()};
  }

  Status write_index() {
    FixedHeader header{};
    std::copy(packed_magic.begin(), packed_magic.end(), header.magic);
    header.version = version;
    header.layers = static_cast<uint32_t>(network_.layers.size());
    header.fingerprint = fingerprint(network_, options_.forms);
    header.file_bytes = layout_.file_bytes;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(layout_.places.data()),
                 layout_.places.size() * sizeof(PackedPlace));
    const uint64_t sum = checksum(std::as_bytes(std::span(bytes)));
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    return file_.write(0, bytes);
  }

  const Network& network_;
  const PackOptions& options_;
  FoldedLayers& layers_;
  MadeFile& file_;
  Layout layout_;
};

/// One line for each layer: what it is, and how its weights are shaped.
std::string describe_weights(const Layer& layer) {
  const char* const name = section_name(layer.operation);
  if (const auto* it = std::get_if<Convolutional>(&layer.operation))
    return fmt::format("{} {} {} {} {} {}\n", name, it->filters, layer.input.channels, it->size,
                       it->groups, it->is_batch_normalized ? 1 : 0);
  if (const auto* it = std::get_if<Connected>(&layer.operation))
    return fmt::format("{} {} {} {}\n", name, it->outputs, layer.input.elements(),
                       it->is_batch_normalized ? 1 : 0);
  return fmt::format("{}\n", name);
}

}  // namespace

uint64_t fingerprint(const Network& network, const WeightForms& forms) {
  std::string text;
  for (const Layer& layer : network.layers) text += describe_weights(layer);
  for (size_t i = 0; i < forms.size(); ++i) {
    if (forms[i].name.empty()) continue;
    text += fmt::format("layer {} in {} bytes for {}\n", i, forms[i].size_bytes, forms[i].name);
  }
  return checksum(std::as_bytes(std::span(text)));
}

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t checksum_of_layer(std::span<const float> biases, std::span<const float> weights) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, biases.data(), biases.size_bytes());
  XXH3_64bits_update(state, weights.data(), weights.size_bytes());
  const uint64_t sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return sum;
}

Status compare_checksums(uint64_t expected, uint64_t found, const std::string& where) {
  if (found == expected) return {};
  return fail(
      fmt::format("{}: expected the checksum {:016x}, found {:016x}", where, expected, found),
      "the file is damaged, or the disk gave other bytes: copy or pack it again");
}

bool begins_packed(model::HeaderReader& reader) {
  std::array<std::byte, packed_magic.size()> start{};
  const size_t length = reader.peek_start(start);
  return std::string_view(reinterpret_cast<const char*>(start.data()), length) == packed_magic;
}

Result<std::vector<PackedPlace>> read_packed_index(model::HeaderReader& reader,
                                                   const Network& network,
                                                   const WeightForms& forms) {
  WP_ASSERT(reader.position_bytes() == 0);
  FixedHeader header{};
  const std::string fixed = reader.read_text(sizeof header, sizeof header, "a header");
  if (!reader.ok()) return reader.take_error();
  std::memcpy(&header, fixed.data(), sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != packed_magic)
    reader.mismatch(0, "packed weights, which begin with WPPACKED", "something else");
  if (header.version != version)
    reader.mismatch(8, fmt::format("version {} of packed weights", version),
                    fmt::format("version {}", header.version), pack_again);
  if (header.layers != network.layers.size())
    reader.mismatch(12, fmt::format("{} layers, as the network has", network.layers.size()),
                    std::to_string(header.layers), for_another);

  std::vector<PackedPlace> places(network.layers.size());
  const uint64_t places_bytes = places.size() * sizeof(PackedPlace);
  const std::string index = reader.read_text(places_bytes, places_bytes, "an index");
  const auto sum = reader.read<uint64_t>("the header's checksum");
  if (!reader.ok()) return reader.take_error();
  const std::string summed = fixed + index;
  if (sum != checksum(std::as_bytes(std::span(summed))))
    reader.mismatch(summed.size(), "the header's checksum", "that of other bytes",
                    "the file is damaged: copy it again");
  if (!reader.ok()) return reader.take_error();
  std::memcpy(places.data(), index.data(), index.size());
  Status status = check_header(reader, header, network, forms);
  if (status) status = check_places(reader, places, network, forms);
  if (!status) return forward_error(std::move(status));
  return places;
}

Result<uint64_t> pack_weights(const Network& network, const PackOptions& options) {
  std::error_code ignored;
  if (!options.overwrite && std::filesystem::exists(options.output_path, ignored))
    return fail(fmt::format("{}: is there already", options.output_path),
                "--force replaces it; or give another path");
  Result<FoldedLayers> layers = FoldedLayers::open(options.weights_path, network);
  if (!layers) return forward_error(std::move(layers));
  const uint64_t file_bytes = lay_out(network, options.forms).file_bytes;
  Result<MadeFile> file = MadeFile::create(options.output_path, file_bytes);
  if (!file) return forward_error(std::move(file));
  if (Status status = Packer(network, options, *layers, *file).run(); !status)
    return forward_error(std::move(status));
  return file_bytes;
}

}  // namespace weightpager::network
