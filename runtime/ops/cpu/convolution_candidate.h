// Candidates: all ways to compute a convolution on this machine.
//
// Problem. Which candidate is the fastest depends on the layer's shape, on the layouts of its
// neighbors, and on the memory for unfolded pictures and packed weights.
//
// Idea. One interface for all candidates: the planner (runtime/plan) sees only times, bytes and
// layouts. For a 3 × 3 convolution with stride 1 and AVX-512 there are 27 candidates of two kinds:
//   - every implementation of oneDNN (onednn_candidates.cc), in every pair of layouts that it
//     takes;
//   - our own over oneDNN's matrix product (gemm_candidates.cc). One of these is the plain one
//     (convolution.h), and only this one can be cut into tiles.
//
// A candidate knows before it runs how much workspace it needs, and how many bytes its packed
// weights have. These can be more than those of the plain weights (Winograd: 1.8 and 4 times as
// many).
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
/// when the candidate was made. All memory that is passed to it begins at multiples of
/// candidate_alignment.
class ConvolutionCandidate {
 public:
  struct Traits {
    /// "im2col", "jit_wino_4x3:avx512_core". Name and both layouts together are unique.
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

  /// Packs plain weights[channels][input channels / groups][size][size]. Biases are not packed.
  virtual Status pack(const float* weights, float* packed) = 0;

  /// Computes everything except for the activation.
  virtual Status run(const Pointers& pointers) = 0;

 protected:
  explicit ConvolutionCandidate(Traits traits) : traits_(std::move(traits)) {}

 private:
  Traits traits_;
};

inline constexpr uint64_t candidate_alignment = 64;
/// The name of the candidate that computes layers without a plan. Its packed weights are the plain
/// ones.
inline constexpr const char* in_tiles = "tiles";

using ConvolutionCandidates = std::vector<std::unique_ptr<ConvolutionCandidate>>;

/// All candidates for the layer, which must be convolutional.
ConvolutionCandidates convolution_candidates(const network::Layer& layer, int threads);
/// The candidate of this name and these layouts, or nullptr if there is none. The others are not
/// compiled: compiling all of them would for a moment take memory for the code of all.
std::unique_ptr<ConvolutionCandidate> convolution_candidate(const network::Layer& layer,
                                                            int threads, const std::string& name,
                                                            Layout layout_in, Layout layout_out);

using IsWanted = std::function<bool(const ConvolutionCandidate::Traits&)>;
ConvolutionCandidates onednn_candidates(const network::Layer& layer, const IsWanted& is_wanted);
ConvolutionCandidates gemm_candidates(const network::Layer& layer, int threads);

}  // namespace weightpager::ops
