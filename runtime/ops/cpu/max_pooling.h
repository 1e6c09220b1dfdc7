// The largest value of each window of a picture, fast on processors without AVX-512, too.
//
// Problem. In Darknet's order of numbers oneDNN has vector code for it with AVX-512 only; without,
// a loop over single numbers takes 20 times as long (SqueezeNet's three take 18 of 28 ms on an AMD
// EPYC).
//
// Idea. Where that is so, some channels at a time are brought into blocks of eight, in which there
// is vector code for every processor, and their maxima back. Maxima are exact: the same bits. (Not
// where windows may lie in the padding as a whole: no such code there, and no .cfg has them.)
//
// Cost. What it takes to copy the picture and its maxima once; memory for the channels that are
// under way, about `channels_bytes_max`.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/layout.h"
#include "runtime/ops/cpu/primitive.h"

namespace weightpager::ops {

/// Not thread-safe; runs on OpenMP's threads.
class MaxPooling {
 public:
  /// Of the picture's channels, so much is in blocks at a time; eight channels at least.
  static constexpr uint64_t channels_bytes_max = uint64_t{1} << 20;

  /// `layer` is a network::MaxPool. Fails where oneDNN has only its reference implementation.
  static Result<MaxPooling> make(const network::Layer& layer);

  /// Memory that run() needs.
  uint64_t scratch_floats() const;

  /// Memory of the primitives', which they are given before the first run, and overwrite.
  uint64_t primitive_scratch_bytes() const;
  void use_primitive_scratch(void* memory);

  /// Shapes as the layer's, in Darknet's layout; the three are apart.
  Status run(dnnl::stream& stream, const float* input, float* output, float* scratch);

 private:
  /// Some of the channels, through blocks.
  struct Detour {
    LayoutChange into_blocks;
    Primitive maxima;
    LayoutChange back;
    uint64_t input_floats = 0;  // of these channels
    uint64_t output_floats = 0;
    uint64_t input_floats_in_blocks = 0;
    uint64_t output_floats_in_blocks = 0;

    static Result<Detour> make(network::Layer layer, uint32_t channels);
    Status run(dnnl::stream& stream, const float* input, float* output, float* scratch);
  };

  Status prepare_detours(const network::Layer& layer);

  // If this is there, it alone.
  std::optional<Primitive> direct_;
  std::optional<Detour> many_;
  uint32_t times_ = 0;          // that `many_` runs
  std::optional<Detour> rest_;  // the channels that are left then
};

}  // namespace weightpager::ops
