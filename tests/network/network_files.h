// Networks and weights files for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/network/parser.h"
#include "runtime/network/weight_source.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::network {

inline Network parsed(const std::string& text) {
  Result<Network> network = parse_network(text, "net.cfg");
  if (network) return std::move(*network);
  ADD_FAILURE() << text << "\n" << network.error().message;
  return {};
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// Version 0.2.0, as Darknet writes it.
inline std::string ordinary_header() { return bytes_of<int32_t>({0, 2, 0, 64, 0}); }

/// A layer as it is in the file: variances and scales around 1, everything else around 0.
inline std::vector<float> random_raw_layer(const Layer& layer, std::mt19937& random) {
  std::vector<float> floats(layer.raw_bytes() / sizeof(float));
  std::uniform_real_distribution<float> noise(-1, 1);
  for (float& value : floats) value = noise(random);
  if (!layer.is_batch_normalized()) return floats;
  const RawParts parts = raw_parts(layer);
  for (uint64_t i = 0; i < layer.channels_with_bias(); ++i) {
    floats[parts.scales + i] += 2;
    floats[parts.variances + i] += 1.5F;
  }
  return floats;
}

/// The layers' bytes of a .weights file, without header.
inline std::string random_raw_layers(const Network& network, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes;
  for (const Layer& layer : network.layers) bytes += bytes_of(random_raw_layer(layer, random));
  return bytes;
}

/// A piece's range as a direct read brings it.
struct ReadPiece {
  std::vector<std::byte> bytes;
  Result<const float*> weights;
};

inline ReadPiece read_piece(WeightSource& source, const Piece& piece) {
  const FileRange range = source.range(piece);
  const std::string file = model::read_all(source.path());
  ReadPiece read{std::vector<std::byte>(range.length_bytes), nullptr};
  if (range.length_bytes > 0) {
    const std::string part = file.substr(range.offset_bytes, range.length_bytes);
    std::memcpy(read.bytes.data(), part.data(), part.size());
  }
  read.weights = source.take_in(piece, read.bytes);
  return read;
}

inline ReadPiece read_layer(WeightSource& source, uint32_t layer) {
  return read_piece(source, source.whole(layer));
}

}  // namespace weightpager::network
