// All the ways to compute a convolution that there are on this machine.
//
// Problem. Which is the fastest depends on the layer's shape, on the layouts of its neighbors, and
// on how much memory there is for unfolded pictures and packed weights.
//
// Idea. One interface for them all; what chooses (runtime/plan) sees times, bytes and layouts.
// There are, for a 3 × 3 convolution with stride 1 and AVX-512, 27 of two kinds:
//   - every implementation of oneDNN (onednn_candidates.cc), in every pair of layouts that it
//   takes;
//   - our own over oneDNN's matrix product (gemm_candidates.cc), and the one that layers run by
//     today (convolution.h), which alone can be cut into tiles.
//
// A candidate knows what it needs before it runs: workspace while it runs, and its weights in an
// order of its own, which can be larger than the plain ones (Winograd: 1.8 and 4 times).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/layout.h"

namespace weightpager::ops {

/// Not thread-safe. Runs on OpenMP's threads; the calling thread must have OpenMP set to as many as
/// when the candidate was made. Memory that it is given begins at multiples of candidate_alignment.
class ConvolutionCandidate {
 public:
  struct Traits {
    /// "im2col", "jit_wino_4x3:avx512_core": unique together with both layouts.
    std::string name;
    Layout layout_in = Layout::nchw;
    Layout layout_out = Layout::nchw;
    uint64_t workspace_bytes = 0;
    uint64_t packed_bytes = 0;
  };
  struct Pointers {
    const float* input = nullptr;
    const float* biases = nullptr;
    const float* packed = nullptr;
    float* output = nullptr;
    float* workspace = nullptr;
  };

  virtual ~ConvolutionCandidate() = default;

  const Traits& traits() const { return traits_; }

  /// From plain weights[channels][input channels / groups][size][size]; biases stay as they are.
  virtual Status pack(const float* weights, float* packed) = 0;

  /// Everything but the activation.
  virtual Status run(const Pointers& pointers) = 0;

 protected:
  explicit ConvolutionCandidate(Traits traits) : traits_(std::move(traits)) {}

 private:
  Traits traits_;
};

inline constexpr uint64_t candidate_alignment = 64;
/// The candidate that layers run by where nothing was planned: its packed weights are the plain
/// ones.
inline constexpr const char* in_tiles = "tiles";

using ConvolutionCandidates = std::vector<std::unique_ptr<ConvolutionCandidate>>;

/// `layer` is convolutional.
ConvolutionCandidates convolution_candidates(const network::Layer& layer, int threads);
/// One of them, nullptr where there is none. The others are not compiled, which takes as much
/// memory for a moment as all of them have code.
std::unique_ptr<ConvolutionCandidate> convolution_candidate(const network::Layer& layer,
                                                            int threads, const std::string& name,
                                                            Layout layout_in, Layout layout_out);

using IsWanted = std::function<bool(const ConvolutionCandidate::Traits&)>;
ConvolutionCandidates onednn_candidates(const network::Layer& layer, const IsWanted& is_wanted);
ConvolutionCandidates gemm_candidates(const network::Layer& layer, int threads);

}  // namespace weightpager::ops
