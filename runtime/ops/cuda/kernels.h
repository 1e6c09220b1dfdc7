// A GPU's kernels for values one by one, and in small groups: everything except for matrix
// products.
//
// Each function puts one kernel into a stream and returns at once. Pointers are addresses on the
// GPU. Tensors are in the order of network::Shape, in 32-bit floats. Counts are below 2^32. If a
// kernel cannot be started, CUDA's last error says so; the caller checks it once per layer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/network/network.h"

namespace weightpager::cuda {

/// A convolution's view of its input: one group's channels, and how the weights slide over them.
struct Sliding {
  network::Shape input;
  uint32_t output_width = 0;
  uint32_t size = 1;
  uint32_t stride = 1;
  uint32_t padding = 0;
};

/// Unfolds output pixels [first_pixel, first_pixel + pixels), row by row of the picture, into a
/// matrix of input.channels · size · size rows. A row has the values that one weight is multiplied
/// with, one for each pixel. Rows begin `row_stride` values after each other.
void unfold(cudaStream_t stream, const Sliding& sliding, const float* input, uint32_t first_pixel,
            uint32_t pixels, uint32_t row_stride, float* unfolded);

/// values[channel][pixel] = activation(values[channel][pixel] + biases[channel]).
void add_biases(cudaStream_t stream, network::Activation activation, const float* biases,
                uint32_t channels, uint32_t pixels, float* values);

void max_pool(cudaStream_t stream, const network::Layer& layer, const float* input, float* output);
void average_pool(cudaStream_t stream, const network::Shape& input, const float* values,
                  float* output);
void upsample(cudaStream_t stream, const network::Layer& layer, const float* input, float* output);
void crop(cudaStream_t stream, const network::Layer& layer, const float* input, float* output);
/// Computes the softmax of each group by itself. Each group has `elements` values.
void softmax(cudaStream_t stream, uint32_t groups, uint32_t elements, float temperature,
             const float* input, float* output);
/// output = activation(first + added). If shapes differ, values are added as network::Shortcut
/// says. `output` may be `first`.
void shortcut(cudaStream_t stream, network::Activation activation, const float* first,
              const network::Shape& added_shape, const float* added,
              const network::Shape& output_shape, float* output);
/// `output` may be `input`.
void yolo(cudaStream_t stream, const network::Layer& layer, const float* input, float* output);

}  // namespace weightpager::cuda
