// A network's description and the weights for it: what stands before the first zero byte is the
// .cfg, what follows is the start of the weights file, .weights or packed.
//
// Weights are far longer than a fuzzer's inputs: a hole stands for the rest. The checksum of a
// packed header is made right, so that what lies behind it is reached.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/network/packed_file.h"
#include "runtime/network/parser.h"
#include "runtime/network/resolution.h"
#include "runtime/network/weight_source.h"
#include "tests/fuzz/fuzzed_file.h"

namespace fuzz = weightpager::fuzz;
namespace network = weightpager::network;
using weightpager::Result;

namespace {

/// Larger ones are only parsed.
constexpr uint64_t weights_bytes_max = 1 << 20;

void check_layer(const network::Network& read, size_t number) {
  const network::Layer& layer = read.layers[number];
  WP_ASSERT(layer.line > 0 && !layer.inputs.empty());
  for (const uint32_t input : layer.inputs)
    WP_ASSERT(input < number || (number == 0 && input == network::network_input));
  WP_ASSERT(layer.input.elements() > 0 && layer.output.elements() > 0);
  WP_ASSERT(layer.folded_bytes() <= layer.raw_bytes());
  WP_ASSERT(layer.folded_bytes() >= layer.weights());
}

void make_header_checksum_right(std::string& bytes, const network::Network& read) {
  const size_t summed = 32 + 24 * read.layers.size();
  if (!bytes.starts_with(network::packed_magic) || bytes.size() < summed + sizeof(uint64_t)) return;
  const uint64_t sum = XXH3_64bits(bytes.data(), summed);
  std::memcpy(bytes.data() + summed, &sum, sizeof sum);
}

/// Takes every layer in, in two pieces where it has two channels.
void take_in_all(network::WeightSource& source, const network::Network& read) {
  for (uint32_t i = 0; i < read.layers.size(); ++i) {
    const network::Piece whole = source.whole(i);
    std::vector<network::Piece> pieces = {whole};
    if (whole.end_channel > 1)
      pieces = {{i, 0, whole.end_channel / 2}, {i, whole.end_channel / 2, whole.end_channel}};
    for (const network::Piece& piece : pieces) {
      const network::FileRange range = source.range(piece);
      WP_ASSERT(range.needed_bytes <= range.length_bytes);
      // As large as needed and no larger, so that a step beyond is seen.
      std::vector<std::byte> bytes(range.needed_bytes);
      const Result<const float*> weights = source.take_in(piece, bytes);
      if (weights && *weights != nullptr) {
        const auto* const start = reinterpret_cast<const std::byte*>(*weights);
        WP_ASSERT(start >= bytes.data() && start < bytes.data() + bytes.size());
      }
    }
  }
}

/// In another size a network has the same weights, or is refused.
void check_other_size(std::string_view text, const network::Network& own) {
  const network::Resolution doubled = {2 * own.input.height, own.input.width / 2 + 1};
  const auto resized = network::network_at(text, "net.cfg", doubled);
  if (!resized) {
    WP_ASSERT(resized.error().message.starts_with("net.cfg for "));
    return;
  }
  WP_ASSERT(resized->weights_file_bytes() == own.weights_file_bytes());
  for (size_t i = 0; i < resized->layers.size(); ++i) check_layer(*resized, i);
}

struct Place {
  fuzz::ScratchDirectory directory;
  fuzz::FuzzedFile weights{directory, "net.weights"};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static Place place;
  const std::string_view input(reinterpret_cast<const char*>(data), length_bytes);
  const size_t end = std::min(input.find('\0'), input.size());
  const Result<network::Network> read = network::parse_network(input.substr(0, end), "net.cfg");
  if (!read) {
    WP_ASSERT(read.error().message.starts_with("net.cfg"));
    return 0;
  }
  for (size_t i = 0; i < read->layers.size(); ++i) check_layer(*read, i);
  check_other_size(input.substr(0, end), *read);

  std::string bytes(input.substr(std::min(end + 1, input.size())));
  if (bytes.empty() || read->weights_file_bytes() > weights_bytes_max) return 0;
  make_header_checksum_right(bytes, *read);
  uint64_t file_bytes = read->weights_file_bytes();
  if (bytes.starts_with(network::packed_magic) && bytes.size() >= 32)
    std::memcpy(&file_bytes, bytes.data() + 24, sizeof file_bytes);
  place.weights.write({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (file_bytes > bytes.size() && file_bytes <= 2 * weights_bytes_max)
    place.weights.pad(file_bytes);
  Result<network::WeightSource> source = network::WeightSource::open(place.weights.path(), *read);
  if (source) {
    take_in_all(*source, *read);
  } else {
    WP_ASSERT(source.error().message.starts_with(place.weights.path()));
  }
  return 0;
}
