// Computes convolutional and connected layers, whole or a tile of their output channels.
//
// Problem. Weights are used where the pager puts them: plain floats in Darknet's order, at any
// address, and perhaps only some output channels of a layer at a time. An image must give the same
// bits whatever the tiles are. oneDNN's convolutions that take plain weights (x64:gemm:jit) do not
// ensure that: for another number of channels they add up in another order (35 of 144 shapes
// tried), because they fit the order to the cache.
//
// Idea. Work like these convolutions, with one matrix product per block of the picture: unfold the
// block's surroundings into a matrix (im2col; not needed for 1 × 1), and multiply the weights with
// it. The blocks depend on the layer and never on the tile, and all terms of a sum are given to one
// call of oneDNN's sgemm. With AVX-512 that call's order of addition does not depend on the number
// of channels (1,710 combinations of pixels, terms and tiles gave the same bits; tests/ops repeats
// some). Without AVX-512 it does, so there every call computes the channels between two multiples
// of 64, or of 16.
//
// Not every tile has to unfold the picture: if a layer has no more pixels than output channels, the
// unfolded picture is no larger than the weights, and may be kept for all of the layer's tiles.
//
// Biases are added, and the simpler activations are applied, right after a block's product, while
// it is in the cache. oneDNN's sgemm has no such step. This saves two passes over memory, compared
// to writing biases first and applying oneDNN's activation to whole outputs: YOLOv3 takes 0.96 of
// the time, ResNet-152 0.94, DenseNet-201 0.94, SqueezeNet 0.87 (`infer -p pre --threads 1 --repeat
// 6`, in turns with commit ba7e030, AMD EPYC with AVX-512, 2026-11-26).
//
// Cost. Processor time in ms of one thread, least of 15 runs, AMD EPYC with AVX-512, oneDNN 2.6.3,
// 2026-11-21. The columns are: this code; oneDNN's convolution over plain weights (x64:gemm:jit);
// and oneDNN's best over weights packed beforehand (brgconv), which could only come from a file
// that was packed for this kind of processor.
//   3 → 32, 3 × 3, 304 × 304              2.6   3.0   1.5
//   64 → 128, 3 × 3, stride 2, 152 × 152  9.3   9.8   7.4
//   128 → 256, 3 × 3, 76 × 76            31.9  33.3  30.4
//   512 → 1024, 3 × 3, 19 × 19           33.7  33.5  27.6
//   1024 → 512, 1 × 1, 19 × 19            3.6   3.5   3.4
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

/// The weights of a tile. Both pointers point to the tile's first channel. Plain floats:
/// biases[channels], weights[channels][input channels / groups][size][size], batch normalization
/// folded in.
struct TileWeights {
  const float* biases = nullptr;
  const float* weights = nullptr;
};

/// Tiles begin and end at multiples of this, or where the layer ends.
inline constexpr uint32_t tile_channels = 16;
/// The same for tiles of this layer on this processor: a multiple of tile_channels.
uint32_t channel_step(const network::Layer& layer);

/// Whether a layer's activation is applied while its sums are in the cache. That is done for
/// activations that need no more than a multiplication. All others need a pass over the whole
/// output.
bool applies_activation(const network::Layer& layer);

/// `by_tile`: each tile of a layer unfolds the picture. `once`: if the unfolded picture is no
/// larger than the layer's weights, only the first tile of a group unfolds it for the others. Those
/// must follow in order, with the same input and scratch memory, and no other code may use that
/// memory in between.
enum class Unfold { by_tile, once };

class Convolution {
 public:
  /// For a convolutional or connected layer, computed by this many threads.
  Convolution(const network::Layer& layer, int threads, Unfold unfolding = Unfold::by_tile);

  /// Whether a tile may begin or end here. Groups make no difference.
  bool is_tile_boundary(uint32_t channel) const;

  /// The number of floats of scratch memory that run() needs and overwrites.
  uint64_t scratch_floats() const;

  /// Computes these channels, including the activation if applies_activation() says so, otherwise
  /// without it. `input` and `output` are those of the whole layer. The calling thread must have
  /// OpenMP set to the number of threads given above. It calls `meanwhile`, if there is one, before
  /// it takes a block; the other threads do not wait for that.
  Status run(Channels channels, const TileWeights& weights, const float* input, float* output,
             float* scratch, const std::function<void()>& meanwhile = {}) const;

 private:
  // A block of the picture: output pixels [begin, begin + pixels), row by row.
  struct Block {
    uint64_t begin = 0;
    uint64_t pixels = 0;
  };
  // The channels of one group that belong to a tile, and their data. `input` points to the group's
  // first channel; all other pointers point to channels.begin.
  struct Piece {
    Channels channels;
    const float* biases = nullptr;
    const float* weights = nullptr;
    const float* input = nullptr;
    float* output = nullptr;
    // The group's unfolded picture stays for other tiles; an earlier tile has unfolded it.
    bool is_kept = false;
    bool is_unfolded = false;
  };

  // A thread's last block, when there are no more blocks to take. Other threads help to compute it.
  struct LastBlock {
    static constexpr uint32_t is_coming = UINT32_MAX;
    // The next part to be taken. If it is the number of parts or more, there is none.
    std::atomic<uint32_t> next_part{is_coming - 1};
    Block block;
    const float* unfolded = nullptr;
  };

  uint64_t blocks() const { return (pixels_ + block_pixels_ - 1) / block_pixels_; }
  Status run_piece(const Piece& piece, float* scratch,
                   const std::function<void()>& meanwhile) const;
  uint32_t parts_of(Channels channels) const;
  Channels part_of(Channels whole, uint32_t part, uint32_t parts) const;
  void finish(float* sums, uint64_t count, float bias) const;
  const float* surroundings(const Piece& piece, Block block, float* scratch) const;
  void unfold(const float* input, Block block, float* unfolded) const;
  void unfold_row(const float* plane, uint32_t kernel_y, uint32_t kernel_x, Block block,
                  float* row) const;
  void unfold_shifted(const float* plane, uint32_t kernel_y, uint32_t kernel_x, Block block,
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
  // Values below zero are multiplied by this.
  float slope_below_zero_ = 1;
  bool is_unfolded_ = false;
  bool is_kept_ = false;
  uint32_t group_channels_ = 0;
  uint64_t terms_ = 0;
  uint64_t pixels_ = 0;
  uint64_t block_pixels_ = 0;
  uint32_t channel_step_ = tile_channels;
  // A call of sgemm computes channels between two multiples of this.
  uint32_t call_channels_max_ = 0;
};

}  // namespace weightpager::ops
