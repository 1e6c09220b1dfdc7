// Computes the layers of a Darknet network on a GPU. The contract is that of CpuOperations
// (runtime/ops/cpu/operations.h), with addresses on the GPU and a stream.
//
// Convolutional and connected layers: the surroundings of each pixel are unfolded into a matrix
// (not needed for 1 × 1). This is done block by block of the picture, so that the scratch memory
// has a bound; the blocks depend on the layer alone. cuBLAS multiplies the weights with the matrix,
// from where they lie; matrix_product.h says why the bits are the same however a layer is cut.
// Biases and activation are applied in place. Everything else is a kernel of our own (kernels.h),
// or a copy.
//
// Cost: all memory is taken and all methods are chosen in `make`. Running a layer takes two to four
// calls per block, and all of them return before the GPU has computed anything.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/matrix_product.h"
#include "runtime/pipeline/cuda/device_memory.h"

namespace weightpager::cuda {

/// Computes one inference at a time. Any thread may call, but only one at a time. Movable.
class CudaOperations {
 public:
  /// `stream` outlives this. Fails if cuBLAS cannot be used, if a layer is too large, or if the GPU
  /// has too little memory.
  static Result<CudaOperations> make(const network::Network& network, cudaStream_t stream);

  /// As in CpuOperations.
  bool is_tile_boundary(uint32_t layer, uint32_t channel) const;
  ops::Channels all_channels(uint32_t layer) const;

  /// As in CpuOperations, but the work is only put into the stream: returns before it is computed.
  /// All pointers, also those of weights and biases, are addresses on the GPU.
  Status run(uint32_t layer, ops::Channels channels, const ops::TileWeights& weights,
             std::span<const float* const> inputs, float* output);

  uint64_t scratch_bytes() const { return scratch_.length_bytes(); }

 private:
  /// A convolutional or connected layer.
  struct Weighted {
    Sliding sliding;  // of one group
    network::Activation activation = network::Activation::linear;
    bool is_unfolded = false;
    uint32_t groups = 1;
    uint32_t group_channels = 0;
    uint32_t terms = 0;
    uint32_t pixels = 0;
    uint32_t block_pixels = 0;
    MatrixProduct::Method method;

    MatrixProduct::Shape product(uint64_t channels, uint64_t block) const;
  };

  CudaOperations(const network::Network& network, MatrixProduct product, cudaStream_t stream);
  Status prepare(uint32_t number);
  Status run_weighted(const Weighted& it, ops::Channels channels, const ops::TileWeights& weights,
                      const float* input, float* output);
  Status run_group(const Weighted& it, uint32_t channels, const float* weights, const float* input,
                   float* output);
  Status run_other(const network::Layer& layer, std::span<const float* const> inputs,
                   float* output);
  Status run_route(const network::Layer& layer, const network::Route& route,
                   std::span<const float* const> inputs, float* output);
  Status copy(const float* from, uint64_t elements, float* to) const;

  network::Network network_;
  MatrixProduct product_;
  cudaStream_t stream_;
  std::vector<std::optional<Weighted>> weighted_;  // by layer
  DeviceMemory scratch_;
};

}  // namespace weightpager::cuda
