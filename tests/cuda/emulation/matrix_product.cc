// In place of cuBLAS: products by their definition. As of cuBLAS one may expect no certain order of
// addition, only that the same method has the same: here a method is chosen by the shape, and each
// adds up in another order.
#include "runtime/ops/cuda/matrix_product.h"

#include <algorithm>
#include <vector>

#include "pager/base/assert.h"
#include "tests/cuda/emulation/emulation.h"

namespace weightpager::cuda {

struct MatrixProduct::State {};

MatrixProduct::MatrixProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
MatrixProduct::MatrixProduct(MatrixProduct&& other) noexcept = default;
MatrixProduct& MatrixProduct::operator=(MatrixProduct&& other) noexcept = default;
MatrixProduct::~MatrixProduct() = default;

Result<MatrixProduct> MatrixProduct::make() { return MatrixProduct(std::make_unique<State>()); }

Result<MatrixProduct::Method> MatrixProduct::choose(const Shape& shape) {
  return Method{{1 + (shape.channels + shape.pixels) % 7}};
}

Status MatrixProduct::run(cudaStream_t stream, const Method& method, const Shape& shape,
                          const float* weights, const float* values, float* output) {
  const uint64_t parts = method.words[0];
  WP_ASSERT(parts > 0 && shape.pixels <= shape.values_stride);
  emulation::enqueue(stream, [=] {
    std::vector<float> part_sums(shape.pixels);
    for (uint64_t channel = 0; channel < shape.channels; ++channel) {
      float* const sums = output + channel * shape.output_stride;
      std::fill_n(sums, shape.pixels, 0.0f);
      for (uint64_t part = 0; part < parts; ++part) {
        std::fill(part_sums.begin(), part_sums.end(), 0.0f);
        for (uint64_t term = part; term < shape.terms; term += parts) {
          const float weight = weights[channel * shape.terms + term];
          const float* const row = values + term * shape.values_stride;
          for (uint64_t pixel = 0; pixel < shape.pixels; ++pixel) {
            part_sums[pixel] += weight * row[pixel];
          }
        }
        for (uint64_t pixel = 0; pixel < shape.pixels; ++pixel) sums[pixel] += part_sums[pixel];
      }
    }
  });
  return {};
}

}  // namespace weightpager::cuda
