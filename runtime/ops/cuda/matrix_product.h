// Products of weights and values by cuBLAS, with a fixed choice of cuBLAS's methods.
//
// Problem. cuBLAS chooses its kernel by the sizes and addresses of a product, and another kernel
// may add up the terms of a sum in another order. Then a layer that is cut into tiles would give
// other bits than the whole layer, and so would a file with weights at odd addresses.
//
// Idea. cuBLASLt is the part of cuBLAS that lets its caller choose. Once per layer the best method
// for the whole layer is chosen, among those that add up each sum in one piece (no split, no
// workspace) and take values at every address that a float may have. Every tile and every block of
// pixels of the layer then uses this method, so each output has the same terms in the same order.
// All numbers are 32-bit floats; TF32 is used only on request, and this code does not request it.
//
// The library is loaded when a network is first computed on a GPU, and never linked: it has half a
// GB, comes in several versions, and most machines that run weightpager do not have it. The part of
// its documented binary interface that is used here has been the same since CUDA 11.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>

#include "pager/base/result.h"

namespace weightpager::cuda {

/// May be used by one thread at a time.
class MatrixProduct {
 public:
  /// output[channels][pixels] = weights[channels][terms] · values[terms][pixels]. Rows of `values`
  /// begin `values_stride` floats after each other, and rows of the output `output_stride` floats.
  struct Shape {
    uint64_t channels = 0;
    uint64_t terms = 0;
    uint64_t pixels = 0;
    uint64_t values_stride = 0;
    uint64_t output_stride = 0;
  };
  /// A method of computing a product, as cuBLASLt describes it.
  struct Method {
    std::array<uint64_t, 8> words{};
  };

  /// Fails if the library is not found, or does not work with the driver.
  static Result<MatrixProduct> make();
  MatrixProduct(MatrixProduct&& other) noexcept;
  MatrixProduct& operator=(MatrixProduct&& other) noexcept;
  ~MatrixProduct();

  /// Chooses the method for this shape, and for shapes with fewer channels and fewer pixels.
  Result<Method> choose(const Shape& shape);
  /// Puts the product into the stream and returns before it is computed.
  Status run(cudaStream_t stream, const Method& method, const Shape& shape, const float* weights,
             const float* values, float* output);

 private:
  struct State;
  explicit MatrixProduct(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace weightpager::cuda
