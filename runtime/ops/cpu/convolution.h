// Convolutional and connected layers, whole or a tile of their output channels.
//
// Problem. Weights are used where the pager puts them: plain floats in Darknet's order, at any
// address, and perhaps only some output channels of a layer at a time. Whatever the tiles, an image
// must give the same bits. oneDNN's convolutions that take plain weights (x64:gemm:jit) add up in
// another order when the number of channels is another one, because they fit the order to the
// cache.
//
// Idea. What they do with one matrix product per block of the picture: unfold the block's
// surroundings into a matrix (im2col; not needed for 1 × 1), and multiply the weights with it. The
// blocks depend on the layer and never on the tile, and all terms of a sum are given to one call of
// oneDNN's sgemm. With AVX-512 that call's order of addition does not depend on the number of
// channels (checked: 1,710 shapes, tests/ops); without AVX-512 it does, so there every call
// computes exactly 16 channels.
//
// Cost. Measured on 2 processors of an AMD EPYC with AVX-512, in ms, while others compiled:
// as here / x64:gemm:jit / oneDNN's best with weights packed for it. 512 → 1024 channels, 3 × 3, 19
// × 19: 40 / 36 / 32; 1024 → 512, 1 × 1, 19 × 19: 1.7 / 1.8 / 1.65; 64 → 192, 3 × 3, 56 × 56: 4.0
// / 5.0 / 3.1; 64 → 128, 3 × 3, stride 2, 152 × 152: 10.7 / 9.2 / 3.8. Packing would gain most
// where strides are 2.
#pragma once

#include <cstdint>
#include <span>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::ops {

/// Output channels of a layer: [begin, end).
struct Channels {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t count() const { return end - begin; }
  bool operator==(const Channels&) const = default;
};

/// Both begin with the tile's first channel. Plain floats: biases[channels],
/// weights[channels][input channels / groups][size][size], batch normalization folded in.
struct TileWeights {
  const float* biases = nullptr;
  const float* weights = nullptr;
};

/// Tiles begin and end at multiples of this, or where the layer ends.
inline constexpr uint32_t tile_channels = 16;

class Convolution {
 public:
  /// A convolutional or connected layer, computed by this many threads.
  Convolution(const network::Layer& layer, int threads);

  /// Whether a tile may begin or end here. With groups also at each multiple of tile_channels of a
  /// group.
  bool is_tile_boundary(uint32_t channel) const;

  /// What run() needs beside its arguments: so many floats, that it overwrites.
  uint64_t scratch_floats() const;

  /// Everything but the activation. `input` and `output` are of the whole layer. The calling thread
  /// must have OpenMP set to the number of threads given above.
  Status run(Channels channels, const TileWeights& weights, const float* input, float* output,
             float* scratch) const;

 private:
  // A block of the picture: output pixels [begin, begin + pixels), row by row.
  struct Block {
    uint64_t begin = 0;
    uint64_t pixels = 0;
  };
  // The channels of one group that a tile has, and where their data is.
  struct Piece {
    uint32_t channels = 0;
    const float* biases = nullptr;
    const float* weights = nullptr;
    const float* input = nullptr;
    float* output = nullptr;
  };

  uint64_t blocks() const { return (pixels_ + block_pixels_ - 1) / block_pixels_; }
  Status run_blocks(const Piece& piece, float* scratch) const;
  Status run_channels(const Piece& piece, float* scratch) const;
  const float* unfold(const float* input, Block block, float* unfolded) const;
  void unfold_row(const float* plane, uint32_t kernel_y, uint32_t kernel_x, Block block,
                  float* row) const;
  int multiply(const Piece& piece, Channels channels, Block block, const float* unfolded,
               uint64_t unfolded_stride) const;

  network::Shape input_;
  network::Shape output_;
  uint32_t groups_ = 1;
  uint32_t size_ = 1;
  uint32_t stride_ = 1;
  uint32_t padding_ = 0;
  int threads_ = 1;
  bool is_unfolded_ = false;
  uint32_t group_channels_ = 0;
  uint64_t terms_ = 0;
  uint64_t pixels_ = 0;
  uint64_t block_pixels_ = 0;
  uint32_t call_channels_max_ = 0;
};

}  // namespace weightpager::ops
