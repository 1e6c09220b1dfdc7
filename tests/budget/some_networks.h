// Networks for the tests of blocks: worked examples, VGG-19, ResNet-101, and any at all.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "runtime/budget/blocks.h"
#include "runtime/budget/delay_model.h"
#include "tests/budget/pick.h"

namespace weightpager::budget {

/// Six layers with sizes 4, 2, 3, 1, 5, 3; times in tenths of a millisecond: 1 ms to read a byte
/// and 0.1 per layer, 0.2 to let a layer go.
inline BlockedNetwork six_layers() {
  BlockedNetwork network;
  const uint64_t sizes[] = {4, 2, 3, 1, 5, 3}, kernels_ms[] = {6, 3, 4, 2, 6, 4};
  for (size_t i = 0; i < 6; ++i) {
    network.layers.push_back({.size_bytes = sizes[i],
                              .read_ns = 10 * sizes[i] + 1,
                              .kernel_ns = 10 * kernels_ms[i],
                              .release_ns = 2});
  }
  return network;
}

/// A byte per nanosecond.
inline BlockedNetwork of_sizes(std::initializer_list<uint64_t> sizes) {
  BlockedNetwork network;
  for (const uint64_t size : sizes) {
    network.layers.push_back({.size_bytes = size, .read_ns = size, .kernel_ns = 1});
  }
  return network;
}

/// Tensors as PyTorch has them: with batch normalization weights, scale, shift, mean, variance and
/// the number of batches; otherwise weights and biases. Its bytes are those of the first five.
inline Work convolution(uint64_t inputs, uint64_t outputs, uint64_t size, uint64_t pixels,
                        bool is_normalized) {
  const uint64_t weights = size * size * inputs * outputs;
  return {.size_bytes = 4 * (weights + (is_normalized ? 4 : 1) * outputs),
          .tensors = is_normalized ? 6u : 2u,
          .operations = 2 * weights * pixels};
}

inline Work connected(uint64_t inputs, uint64_t outputs) {
  return {.size_bytes = 4 * (inputs * outputs + outputs),
          .tensors = 2,
          .operations = 2 * inputs * outputs};
}

/// The 19 layers with weights at 224 × 224: 548.05 MiB, of which layer 16 is 392.02.
inline std::vector<Work> vgg19() {
  std::vector<Work> layers;
  uint64_t channels = 3, width = 224;
  for (const auto& [count, filters] : {std::pair(2, 64), {2, 128}, {4, 256}, {4, 512}, {4, 512}}) {
    for (int i = 0; i < count; ++i) {
      layers.push_back(
          convolution(channels, static_cast<uint64_t>(filters), 3, width * width, false));
      channels = static_cast<uint64_t>(filters);
    }
    width /= 2;
  }
  layers.push_back(connected(512 * 7 * 7, 4096));
  layers.push_back(connected(4096, 4096));
  layers.push_back(connected(4096, 1000));
  return layers;
}

inline void add(Work& work, const Work& more) {
  work.size_bytes += more.size_bytes;
  work.tensors += more.tensors;
  work.operations += more.operations;
}

/// 101 layers at 224 × 224, 170.3 MiB. Where a stage begins, the shortcut's convolution counts to
/// the first one.
inline std::vector<Work> resnet101() {
  std::vector<Work> layers = {convolution(3, 64, 7, 112 * 112, true)};
  uint64_t channels = 64, width = 56;
  for (const auto& [count, filters] : {std::pair(3, 64), {4, 128}, {23, 256}, {3, 512}}) {
    const auto inner = static_cast<uint64_t>(filters);
    for (int i = 0; i < count; ++i) {
      const uint64_t pixels = width * width;
      layers.push_back(convolution(channels, inner, 1, pixels, true));
      if (i == 0) add(layers.back(), convolution(channels, 4 * inner, 1, pixels, true));
      layers.push_back(convolution(inner, inner, 3, pixels, true));
      layers.push_back(convolution(inner, 4 * inner, 1, pixels, true));
      channels = 4 * inner;
    }
    width /= 2;
  }
  layers.push_back(connected(2048, 1000));
  return layers;
}

/// Few layers, short times: many events coincide, and a third of the layers are empty.
inline BlockedNetwork any_network(uint32_t layers_max) {
  BlockedNetwork network;
  network.layers.resize(pick(1u, layers_max + 1));
  const auto longest_ns = *rc::gen::element<uint64_t>(4, 40, 1000);
  const auto time_ns = [&] { return pick<uint64_t>(0, longest_ns + 1); };
  for (LayerCosts& layer : network.layers) {
    layer.size_bytes = pick(0, 3) == 0 ? 0 : pick<uint64_t>(1, 9);
    layer.read_ns = time_ns();
    layer.kernel_ns = time_ns();
    layer.release_ns = time_ns() / pick<uint64_t>(1, 5);
  }
  network.per_block = {.read_ns = pick<uint64_t>(0, 4), .release_ns = pick<uint64_t>(0, 4)};
  return network;
}

/// All ways to cut so many layers; calls `visit` with each one's ends.
template <typename Visit>
void for_all_partitions(uint32_t layers, Visit visit) {
  for (uint32_t cuts = 0; cuts < 1u << (layers - 1); ++cuts) {
    BlockEnds ends;
    for (uint32_t i = 0; i + 1 < layers; ++i) {
      if ((cuts >> i & 1) != 0) ends.push_back(i + 1);
    }
    ends.push_back(layers);
    visit(ends);
  }
}

}  // namespace weightpager::budget
