// Computes the largest value of each window of a picture, also fast on processors without AVX-512.
//
// Problem. For Darknet's order of numbers oneDNN has vector code with AVX-512 only. Without
// AVX-512, a loop over single numbers takes 20 times as long (SqueezeNet's three such layers take
// 18 of 28 ms on an AMD EPYC).
//
// Idea. Where there is only that loop, some channels at a time are brought into blocks of eight,
// for which there is vector code on every processor, and their maxima are brought back. Maxima are
// exact, so the bits are the same. (Layers whose windows may lie wholly in the padding keep the
// loop: there is no such code for them, and no .cfg has them.)
//
// Cost. The time to copy the picture and its maxima once, and memory for the channels that are
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
  /// At most so many bytes of the picture's channels are in blocks at a time, but at least eight
  /// channels.
  static constexpr uint64_t channels_bytes_max = uint64_t{1} << 20;

  /// `layer` is a network::MaxPool. Fails if oneDNN has only its reference implementation.
  static Result<MaxPooling> make(const network::Layer& layer);

  /// The number of floats of scratch memory that run() needs.
  uint64_t scratch_floats() const;

  /// Scratch memory of the primitives. They must be given it before the first run, and they
  /// overwrite it.
  uint64_t primitive_scratch_bytes() const;
  void use_primitive_scratch(void* memory);

  /// Shapes are the layer's, in Darknet's layout. The three pointers must not overlap.
  Status run(dnnl::stream& stream, const float* input, float* output, float* scratch);

 private:
  /// Computes some of the channels by way of blocks.
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

  // If this is set, the others are not.
  std::optional<Primitive> direct_;
  std::optional<Detour> many_;
  uint32_t times_ = 0;          // how often `many_` runs
  std::optional<Detour> rest_;  // computes the channels that are left then
};

}  // namespace weightpager::ops
