// Products of weights with what they are multiplied with: cuBLAS, told which of its ways to go.
//
// Problem. cuBLAS chooses its kernel by the sizes and addresses of a product, and with another
// kernel the terms of a sum may be added up in another order. A layer that is cut into tiles would
// then give other bits than the whole one, and a file with weights at odd addresses other ones than
// a file without.
//
// Idea. cuBLASLt, the part of cuBLAS that lets one choose: once per layer the way is chosen that
// suits the whole layer, among those that add up each sum in one piece (no split, no workspace) and
// take values at every address that a float may have. Every tile and every block of pixels of the
// layer then goes that way, and each output sees the same terms in the same order. 32-bit
// floats throughout; TF32 only comes when it is asked for, and is not.
//
// The library is looked for when a network is first computed on a GPU, and never linked: it has
// half a GB, comes in several versions, and most machines that run weightpager have none. What of
// its documented binary interface is used has been the same since CUDA 11.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>

#include "pager/base/result.h"

namespace weightpager::cuda {

/// One thread at a time.
class MatrixProduct {
 public:
  /// output[channels][pixels] = weights[channels][terms] · values[terms][pixels]. Rows of `values`
  /// and of the output begin so many floats after each other.
  struct Shape {
    uint64_t channels = 0;
    uint64_t terms = 0;
    uint64_t pixels = 0;
    uint64_t values_stride = 0;
    uint64_t output_stride = 0;
  };
  /// Which way to go. cuBLASLt's own description of it.
  struct Method {
    std::array<uint64_t, 8> words{};
  };

  /// Fails where the library is not found, or does not work with the driver.
  static Result<MatrixProduct> make();
  MatrixProduct(MatrixProduct&& other) noexcept;
  MatrixProduct& operator=(MatrixProduct&& other) noexcept;
  ~MatrixProduct();

  /// For this shape, and for those with fewer channels and fewer pixels.
  Result<Method> choose(const Shape& shape);
  /// Puts the product into the stream.
  Status run(cudaStream_t stream, const Method& method, const Shape& shape, const float* weights,
             const float* values, float* output);

 private:
  struct State;
  explicit MatrixProduct(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace weightpager::cuda
