// Weights as Darknet stores them and as they are packed: the same bits from both, and an error
// instead of weights that are not the network's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <filesystem>

#include "pager/base/units.h"
#include "runtime/network/packed_file.h"
#include "runtime/network/weight_source.h"
#include "runtime/network/weights_file.h"
#include "tests/network/network_files.h"

namespace weightpager::network {
namespace {

const std::string two_layers =
    "[net]\nheight=4\nwidth=4\nchannels=2\n"
    "[convolutional]\nfilters=3\nbatch_normalize=1\nactivation=linear\n"
    "[avgpool]\n"
    "[connected]\noutput=5\nbatch_normalize=1\nactivation=linear\n";
const std::string forty_channels =
    "[net]\nheight=4\nwidth=4\nchannels=8\n"
    "[convolutional]\nfilters=40\nsize=3\n";
// Of two_layers, by hand: 3 channels of 4 floats, 3 x 2 weights; 5 channels of 4, 5 x 3 weights.
constexpr uint64_t first_bytes = 4 * (4 * 3 + 6);
constexpr uint64_t second_bytes = 4 * (4 * 5 + 15);

class Weights : public testing::Test {
 protected:
  std::string write_raw(const Network& network, uint32_t seed = 1) {
    return directory_.write("net.weights", ordinary_header() + random_raw_layers(network, seed));
  }

  Result<WeightSource> open(const std::string& bytes, const Network& network) {
    return WeightSource::open(directory_.write("net.weights", bytes), network);
  }

  std::string pack(const Network& network, const std::string& weights_path) {
    const std::string path = directory_.path("net.packed");
    const Result<uint64_t> size = pack_weights(network, {weights_path, path, true, {}});
    EXPECT_TRUE(size) << size.error().message;
    EXPECT_EQ(*size, std::filesystem::file_size(path));
    return path;
  }

  model::TemporaryDirectory directory_;
};

// --- .weights -----------------------------------------------------------------------------------

TEST_F(Weights, HeadersOfAllVersionsAreSkipped) {
  const Network network = parsed(two_layers);
  const std::string layers = random_raw_layers(network, 1);
  const auto offset_of_first = [&](const std::vector<int32_t>& header) {
    Result<model::HeaderReader> reader =
        model::HeaderReader::open(directory_.write("a.weights", bytes_of(header) + layers));
    const Result<RawPlaces> places = place_raw_weights(*reader, network);
    EXPECT_TRUE(places) << places.error().message;
    EXPECT_EQ(places->offsets_bytes[1], places->offsets_bytes[0] + first_bytes);
    EXPECT_EQ(places->offsets_bytes[2], places->offsets_bytes[1]);
    EXPECT_EQ(places->is_transposed, header[1] > 1000);
    return places->offsets_bytes[0];
  };
  EXPECT_EQ(offset_of_first({0, 1, 0, 64}), 16u);
  EXPECT_EQ(offset_of_first({0, 2, 0, 64, 0}), 20u);
  EXPECT_EQ(offset_of_first({0, 2, 5, 64, 0}), 20u);
  EXPECT_EQ(offset_of_first({1, 0, 0, 64, 0}), 20u);
  EXPECT_EQ(offset_of_first({0, 1001, 0, 64}), 16u);
}

TEST_F(Weights, AShortFileSaysWhereItEnds) {
  const Network network = parsed(two_layers);
  const std::string whole = ordinary_header() + random_raw_layers(network, 1);
  const auto ends = [&](uint64_t size, const std::string& what) {
    Result<WeightSource> source = open(whole.substr(0, size), network);
    ASSERT_FALSE(source) << size;
    EXPECT_EQ(source.error().message,
              fmt::format("{}, byte {}: expected more {}, found the end of the file",
                          directory_.path("net.weights"), size, what));
    EXPECT_EQ(source.error().hint,
              fmt::format("the file is {} bytes shorter than the network needs: it is cut off, or "
                          "another network's",
                          whole.size() - size));
  };
  const std::string first = " of layer 0 (convolutional, line 5)";
  ends(20, "biases" + first);
  ends(31, "biases" + first);
  ends(32, "scales" + first);
  ends(44, "means" + first);
  ends(56, "variances" + first);
  ends(68, "weights" + first);
  const std::string second = " of layer 2 (connected, line 10)";
  ends(20 + first_bytes, "biases" + second);
  ends(20 + first_bytes + 20, "weights" + second);
  ends(20 + first_bytes + 80, "scales" + second);
  ends(20 + first_bytes + second_bytes - 1, "variances" + second);
}

TEST_F(Weights, EveryOtherSizeIsRefused) {
  const Network network = parsed(two_layers);
  const std::string whole = ordinary_header() + random_raw_layers(network, 1);
  ASSERT_EQ(whole.size(), network.weights_file_bytes());
  for (uint64_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(open(whole.substr(0, size), network)) << size;
  EXPECT_TRUE(open(whole, network));
  Result<WeightSource> longer = open(whole + "123", network);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message,
            fmt::format("{}, byte {}: expected the end of the file behind layer 2 (connected, "
                        "line 10), found 3 bytes more",
                        directory_.path("net.weights"), whole.size()));
}

TEST_F(Weights, FoldingIsWhatDarknetComputes) {
  const Network network = parsed(two_layers);
  std::mt19937 random(7);
  for (const size_t number : {0, 2}) {
    const Layer& layer = network.layers[number];
    const std::vector<float> raw = random_raw_layer(layer, random);
    std::vector<float> folded = raw;
    const Result<LayerWeights> weights = fold(layer, folded, "net");
    ASSERT_TRUE(weights);
    const RawParts parts = raw_parts(layer);
    const uint64_t channels = layer.channels_with_bias();
    const uint64_t inputs = layer.weights() / channels;
    for (uint64_t channel = 0; channel < channels; ++channel) {
      double sum = 0;
      double folded_sum = 0;
      for (uint64_t i = 0; i < inputs; ++i) {
        const double input = std::sin(static_cast<double>(i + 1));
        sum += input * raw[parts.weights + channel * inputs + i];
        folded_sum += input * weights->weights[channel * inputs + i];
      }
      const double normalized = (sum - raw[parts.means + channel]) /
                                (std::sqrt(raw[parts.variances + channel]) + .000001F);
      const double expected = normalized * raw[parts.scales + channel] + raw[channel];
      EXPECT_NEAR(folded_sum + weights->biases[channel], expected, 1e-5) << channel;
    }
  }
}

TEST_F(Weights, FoldingUsesDarknetsEpsilonOnTheRoot) {
  const Network network =
      parsed("[net]\nheight=1\nwidth=1\nchannels=1\n[convolutional]\nbatch_normalize=1\n");
  // bias, scale, mean, variance, weight
  std::vector<float> raw = {0, 1, 0, 1e-12F, 1};
  const Result<LayerWeights> weights = fold(network.layers[0], raw, "net");
  ASSERT_TRUE(weights);
  EXPECT_NEAR(*weights->weights, 500'000, 1);
}

TEST_F(Weights, NumbersThatCannotBeFoldedAreRefused) {
  const Network network = parsed(two_layers);
  const auto refused = [&](uint64_t place, float value, const std::string& found) {
    std::mt19937 random(7);
    std::vector<float> raw = random_raw_layer(network.layers[0], random);
    raw[place] = value;
    const Result<LayerWeights> weights = fold(network.layers[0], raw, "net.weights");
    ASSERT_FALSE(weights);
    EXPECT_TRUE(
        weights.error().message.starts_with("net.weights: expected numbers that can be "
                                            "divided for channel 1, found "))
        << weights.error().message;
    EXPECT_NE(weights.error().message.find(found), std::string::npos) << weights.error().message;
  };
  const RawParts parts = raw_parts(network.layers[0]);
  refused(parts.variances + 1, -1, "variance -1");
  refused(parts.variances + 1, NAN, "variance nan");
  refused(parts.scales + 1, INFINITY, "scale inf");
  refused(parts.means + 1, NAN, "mean nan");
  refused(parts.biases + 1, -INFINITY, "bias -inf");
}

TEST_F(Weights, RangesCoverTheWeightsAndNothingIsReadForTheOthers) {
  const Network network = parsed(two_layers);
  Result<WeightSource> source = WeightSource::open(write_raw(network), network);
  ASSERT_TRUE(source);
  EXPECT_FALSE(source->is_packed());
  const FileRange first = source->range(source->whole(0));
  EXPECT_EQ(first.offset_bytes, 0u);
  EXPECT_EQ(first.length_bytes, 4096u);
  EXPECT_EQ(first.needed_bytes, 20 + first_bytes);
  EXPECT_EQ(source->range(source->whole(1)).length_bytes, 0u);
  EXPECT_EQ(source->biases(1), nullptr);
  EXPECT_EQ(*source->take_in(source->whole(1), {}), nullptr);
}

TEST_F(Weights, TakingInLeavesTheNeighboursAlone) {
  const Network network = parsed(two_layers);
  Result<WeightSource> source = WeightSource::open(write_raw(network), network);
  ASSERT_TRUE(source);
  const std::string file = model::read_all(source->path());
  const ReadPiece read = read_layer(*source, 2);
  const std::string before = file.substr(0, 20 + first_bytes);
  EXPECT_EQ(std::memcmp(read.bytes.data(), before.data(), before.size()), 0);
}

// --- packed -------------------------------------------------------------------------------------

/// A small network of any depth, with everything in it that has weights.
Network random_network() {
  const auto below = [](int end) { return *rc::gen::inRange(1, end); };
  std::string text = fmt::format("[net]\nheight={}\nwidth={}\nchannels={}\n", 4 + below(4),
                                 4 + below(4), 2 * below(3));
  const int layers = below(7);
  for (int i = 0; i < layers; ++i) {
    switch (below(5)) {
      case 1:
        text += fmt::format("[convolutional]\nfilters={}\nsize={}\npad=1\ngroups=2\n",
                            2 * below(40), 2 * below(3) - 1);
        break;
      case 2:
        text += fmt::format("[convolutional]\nfilters={}\nsize=3\npad=1\nbatch_normalize=1\n",
                            2 * below(40));
        break;
      case 3:
        text += fmt::format("[connected]\noutput={}\nbatch_normalize={}\n", 2 * below(20),
                            below(3) - 1);
        break;
      default:
        text += "[dropout]\n";
    }
  }
  return parsed(text);
}

TEST_F(Weights, PackedAndRawGiveTheSameBits) {
  rc::check([&] {
    const Network network = random_network();
    const std::string raw_path = write_raw(network, *rc::gen::arbitrary<uint32_t>());
    Result<WeightSource> raw = WeightSource::open(raw_path, network);
    Result<WeightSource> packed = WeightSource::open(pack(network, raw_path), network);
    RC_ASSERT(raw.has_value() && packed.has_value());
    RC_ASSERT(packed->is_packed() && !raw->is_packed());
    for (uint32_t i = 0; i < network.layers.size(); ++i) {
      const Layer& layer = network.layers[i];
      const ReadPiece from_raw = read_layer(*raw, i);
      const ReadPiece from_packed = read_layer(*packed, i);
      RC_ASSERT(from_raw.weights.has_value() && from_packed.weights.has_value());
      if (layer.raw_bytes() == 0) continue;
      const auto channels = static_cast<uint32_t>(layer.channels_with_bias());
      RC_ASSERT(std::memcmp(raw->biases(i), packed->biases(i), channels * sizeof(float)) == 0);
      RC_ASSERT(std::memcmp(*from_raw.weights, *from_packed.weights,
                            layer.weights() * sizeof(float)) == 0);
      // In pieces they are the same.
      const uint32_t step = *rc::gen::inRange(1u, channels + 1);
      const uint64_t of_channel = layer.weights() / channels;
      for (uint32_t first = 0; first < channels; first += step) {
        const Piece piece = {i, first, std::min(first + step, channels)};
        for (WeightSource* source : {&*raw, &*packed}) {
          const FileRange range = source->range(piece);
          RC_ASSERT(range.offset_bytes % 4096 == 0 && range.length_bytes % 4096 == 0);
          const ReadPiece read = read_piece(*source, piece);
          RC_ASSERT(read.weights.has_value());
          RC_ASSERT(std::memcmp(*read.weights, *from_raw.weights + first * of_channel,
                                (piece.end_channel - first) * of_channel * sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_F(Weights, OldTransposedFilesArePackedTurned) {
  const Network network = parsed("[net]\nheight=1\nwidth=1\nchannels=2\n[connected]\noutput=3\n");
  const std::string old = bytes_of<int32_t>({0, 1001, 0, 64}) +
                          bytes_of<float>({1, 2, 3, /*input 0*/ 10, 20, 30, /*1*/ 40, 50, 60});
  const std::string path = directory_.write("old.weights", old);
  Result<WeightSource> raw = WeightSource::open(path, network);
  ASSERT_FALSE(raw);
  EXPECT_EQ(raw.error().message, path +
                                     ", byte 0: expected connected layers by output, found an "
                                     "old file that has them by input");

  Result<WeightSource> packed = WeightSource::open(pack(network, path), network);
  ASSERT_TRUE(packed);
  const ReadPiece read = read_layer(*packed, 0);
  ASSERT_TRUE(read.weights);
  EXPECT_EQ(std::vector<float>(packed->biases(0), packed->biases(0) + 3),
            (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(std::vector<float>(*read.weights, *read.weights + 6),
            (std::vector<float>{10, 40, 20, 50, 30, 60}));
}

TEST_F(Weights, EveryDamagedByteOfAPackedHeaderIsRefused) {
  const Network network = parsed(two_layers);
  const std::string packed = model::read_all(pack(network, write_raw(network)));
  constexpr size_t header_bytes = 32 + 3 * 24 + 8;
  for (size_t i = 0; i < header_bytes; ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(open(damaged, network)) << i;
  }
}

TEST_F(Weights, ADamagedLayerIsRefusedWhenItIsTakenIn) {
  const Network network = parsed(two_layers);
  std::string packed = model::read_all(pack(network, write_raw(network)));
  packed[4096 + 5] = static_cast<char>(packed[4096 + 5] ^ 0x10);
  Result<WeightSource> source = open(packed, network);
  ASSERT_TRUE(source);
  const ReadPiece damaged = read_layer(*source, 0);
  ASSERT_FALSE(damaged.weights);
  EXPECT_TRUE(damaged.weights.error().message.starts_with(
      source->path() + ", byte 4096, layer 0 (convolutional, line 5): expected the checksum "))
      << damaged.weights.error().message;
  EXPECT_TRUE(read_layer(*source, 2).weights);
}

TEST_F(Weights, PiecesAreKnownOnceTheirLayerWasRight) {
  const Network network = parsed(forty_channels);
  Result<WeightSource> source = WeightSource::open(pack(network, write_raw(network)), network);
  ASSERT_TRUE(source);
  const Piece pieces[] = {{0, 0, 16}, {0, 16, 32}, {0, 32, 40}};
  for (const Piece& piece : pieces) ASSERT_TRUE(read_piece(*source, piece).weights);
  // From now on each alone, in any order: others may be in memory already.
  for (const int i : {2, 0, 1, 1}) ASSERT_TRUE(read_piece(*source, pieces[i]).weights) << i;
  ReadPiece damaged = read_piece(*source, pieces[1]);
  damaged.bytes[source->range(pieces[1]).needed_bytes - 3] ^= std::byte{1};
  EXPECT_FALSE(source->take_in(pieces[1], damaged.bytes));
}

// Windows cut layers in ways that may have some pieces in common: the first, or the last.
TEST_F(Weights, ALayerThatIsCutInAnotherWayIsCheckedAsAWhole) {
  const Network network = parsed(forty_channels);
  Result<WeightSource> source = WeightSource::open(pack(network, write_raw(network)), network);
  ASSERT_TRUE(source);
  const Piece cuts[][2] = {{{0, 0, 16}, {0, 16, 40}}, {{0, 0, 32}, {0, 32, 40}}};
  const Piece thirds[] = {{0, 0, 16}, {0, 16, 32}, {0, 32, 40}};
  for (const auto& cut : cuts) {
    source->forget_pieces();
    for (const Piece& piece : thirds) ASSERT_TRUE(read_piece(*source, piece).weights);
    source->forget_pieces();
    for (const Piece& piece : cut) EXPECT_TRUE(read_piece(*source, piece).weights);
    for (const Piece& piece : cut) EXPECT_TRUE(read_piece(*source, piece).weights);
  }
}

// Nothing goes unchecked, and nothing is taken for right, if that is forgotten.
TEST_F(Weights, PiecesOfTwoCutsAreNeverRightTogether) {
  const Network network = parsed(forty_channels);
  Result<WeightSource> source = WeightSource::open(pack(network, write_raw(network)), network);
  ASSERT_TRUE(source);
  const Piece thirds[] = {{0, 0, 16}, {0, 16, 32}, {0, 32, 40}};
  for (const Piece& piece : thirds) ASSERT_TRUE(read_piece(*source, piece).weights);
  EXPECT_TRUE(read_piece(*source, {0, 0, 16}).weights);
  EXPECT_FALSE(read_piece(*source, {0, 16, 40}).weights) << "without the beginning";
  // The last piece is one of the thirds, which must not end the check of the first.
  ReadPiece damaged = read_piece(*source, {0, 0, 32});
  ASSERT_TRUE(damaged.weights) << "only the last piece tells";
  damaged.bytes[source->range({0, 0, 32}).needed_bytes - 3] ^= std::byte{1};
  EXPECT_TRUE(source->take_in({0, 0, 32}, damaged.bytes));
  EXPECT_FALSE(read_piece(*source, {0, 32, 40}).weights);
}

TEST_F(Weights, PiecesOfALayerThatWasWrongStayUnknown) {
  const Network network = parsed(forty_channels);
  std::string packed = model::read_all(pack(network, write_raw(network)));
  packed[4096 + 4 * 40 + 7] = static_cast<char>(packed[4096 + 4 * 40 + 7] ^ 0x10);
  Result<WeightSource> source = open(packed, network);
  ASSERT_TRUE(source);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_TRUE(read_piece(*source, {0, 0, 16}).weights);
    EXPECT_FALSE(read_piece(*source, {0, 16, 40}).weights);
  }
}

TEST_F(Weights, EveryOtherSizeOfAPackedFileIsRefused) {
  const Network network = parsed(two_layers);
  const std::string packed = model::read_all(pack(network, write_raw(network)));
  ASSERT_EQ(packed.size(), 3u * 4096);
  for (size_t size = 0; size < packed.size(); size += 7)
    EXPECT_FALSE(open(packed.substr(0, size), network)) << size;
  Result<WeightSource> longer = open(packed + "x", network);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message, directory_.path("net.weights") +
                                        ", byte 24: expected a file of 12288 bytes, found 12289");
}

TEST_F(Weights, PackedForAnotherNetworkIsRefused) {
  const std::string text =
      "[net]\nheight=8\nwidth=8\nchannels=4\n"
      "[convolutional]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\n[shortcut]\nfrom=-1\n";
  const Network network = parsed(text);
  const std::string packed = model::read_all(pack(network, write_raw(network)));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return open(packed, parsed(other));
  };
  EXPECT_TRUE(changed("height=8", "height=16")) << "convolutions take inputs of any size";
  EXPECT_TRUE(changed("[shortcut]", "activation=leaky\n[shortcut]"));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"filters=4", "filters=6"},
                                                        {"size=3", "size=1"},
                                                        {"batch_normalize=1", "batch_normalize=0"},
                                                        {"size=3", "size=3\ngroups=2"},
                                                        {"[shortcut]\nfrom=-1", "[dropout]"}}) {
    Result<WeightSource> source = changed(from, to);
    ASSERT_FALSE(source) << to;
    EXPECT_EQ(
        source.error().hint,
        "the weights were packed for another network or another plan: give its .cfg, and --plan "
        "where they were packed with it");
  }
  EXPECT_FALSE(changed("[shortcut]\nfrom=-1", "[shortcut]\nfrom=-1\n[dropout]"));
}

TEST_F(Weights, PackingFailsWithoutLeavingAFile) {
  const Network network = parsed(two_layers);
  std::string raw = ordinary_header() + random_raw_layers(network, 1);
  // The variance of the connected layer's last channel, which is the last float.
  const float negative = -1;
  std::memcpy(raw.data() + raw.size() - sizeof negative, &negative, sizeof negative);
  const std::string weights_path = directory_.write("bad.weights", raw);
  const std::string output_path = directory_.path("out/net.packed");
  std::filesystem::create_directory(directory_.path("out"));
  EXPECT_FALSE(pack_weights(network, {weights_path, output_path, false, {}}));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path("out")));
}

TEST_F(Weights, WhatIsPackedPacksToTheSameBytes) {
  const Network network = parsed(two_layers);
  const std::string first_path = directory_.path("first.packed");
  const std::string again_path = directory_.path("again.packed");
  ASSERT_TRUE(pack_weights(network, {write_raw(network), first_path, false, {}}));
  const Result<uint64_t> again = pack_weights(network, {first_path, again_path, false, {}});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(model::read_all(again_path), model::read_all(first_path));
}

TEST_F(Weights, WhatIsPackedAndDamagedIsNotPackedAgain) {
  const Network network = parsed(two_layers);
  const std::string first_path = directory_.path("first.packed");
  const std::string again_path = directory_.path("again.packed");
  ASSERT_TRUE(pack_weights(network, {write_raw(network), first_path, false, {}}));
  std::string bytes = model::read_all(first_path);
  bytes[os_page_bytes + 1] ^= 1;  // of the first layer
  const std::string damaged_path = directory_.write("damaged.packed", bytes);
  const Result<uint64_t> again = pack_weights(network, {damaged_path, again_path, false, {}});
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("damaged.packed, byte 4096, layer 0"), std::string::npos)
      << again.error().message;
  EXPECT_FALSE(std::filesystem::exists(again_path));
}

TEST_F(Weights, PackingReplacesOnlyWhenToldTo) {
  const Network network = parsed(two_layers);
  const std::string weights_path = write_raw(network);
  const std::string output_path = directory_.write("net.packed", "precious");
  const Result<uint64_t> refused = pack_weights(network, {weights_path, output_path, false, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, output_path + ": is there already");
  EXPECT_EQ(model::read_all(output_path), "precious");
  EXPECT_TRUE(pack_weights(network, {weights_path, output_path, true, {}}));
  EXPECT_TRUE(WeightSource::open(output_path, network));
}

}  // namespace
}  // namespace weightpager::network
