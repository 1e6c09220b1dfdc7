// What tests on a GPU need: whether there is one, and values there and back.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/ops/cuda/matrix_product.h"
#include "runtime/pipeline/cuda/device_memory.h"
#include "tests/base/lacks.h"

namespace weightpager::cuda {

/// Why nothing can be computed on a GPU here.
inline Lack missing() {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    return std::string("no GPU: ") + cudaGetErrorString(error);
  }
  if (const auto product = MatrixProduct::make(); !product) return product.error().message;
  return std::nullopt;
}

/// Floats on the GPU.
class DeviceFloats {
 public:
  explicit DeviceFloats(uint64_t count) : count_(count) {
    auto memory = DeviceMemory::make(count * sizeof(float), "a test");
    if (!memory) throw std::runtime_error(memory.error().message);
    memory_ = std::move(*memory);
  }
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    copy(first(), values.data(), cudaMemcpyHostToDevice);
  }

  float* first() const { return reinterpret_cast<float*>(memory_.at(0)); }
  /// After what is in the stream.
  std::vector<float> fetch(cudaStream_t stream) const {
    if (cudaStreamSynchronize(stream) != cudaSuccess) throw std::runtime_error("the GPU failed");
    std::vector<float> values(count_);
    copy(values.data(), first(), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    if (cudaMemcpy(to, from, count_ * sizeof(float), kind) != cudaSuccess) {
      throw std::runtime_error("no copy to or from the GPU");
    }
  }

  uint64_t count_;
  DeviceMemory memory_;
};

}  // namespace weightpager::cuda
