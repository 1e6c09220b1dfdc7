// See kernels.h. Each thread computes one value of the output. Neighbouring threads of a warp
// compute neighbouring values, so they read and write side by side. Threads never add up a value in
// an order that could change, so the bits are the same every time.
#include <algorithm>
#include <cfloat>

#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/launch.cuh"

namespace weightpager::cuda {
namespace {

using network::Activation;
using network::Shape;

__device__ uint32_t piece_of_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ float logistic(float x) { return 1 / (1 + expf(-x)); }

// x · tanh(log(1 + e^x)), transformed so that it needs no logarithm. No precision is lost where e^x
// is small.
__device__ float mish(float x) {
  if (x > 20) return x;
  const float power = expf(x);
  const float product = power * (power + 2);
  return x * product / (product + 2);
}

__device__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::leaky:
      return x > 0 ? x : 0.1f * x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::logistic:
      return logistic(x);
    case Activation::mish:
      return mish(x);
    case Activation::swish:
      return x * logistic(x);
  }
  return x;
}

__global__ void unfold_kernel(uint32_t count, Sliding sliding, const float* input,
                              uint32_t first_pixel, uint32_t pixels, uint32_t row_stride,
                              float* unfolded) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t term = place / pixels;
  const uint32_t pixel = first_pixel + place % pixels;
  const uint32_t kernel_x = term % sliding.size;
  const uint32_t kernel_y = term / sliding.size % sliding.size;
  const uint32_t channel = term / (sliding.size * sliding.size);
  // Left of the picture or above it these wrap around, so they are too large there as well.
  const uint32_t x = pixel % sliding.output_width * sliding.stride + kernel_x - sliding.padding;
  const uint32_t y = pixel / sliding.output_width * sliding.stride + kernel_y - sliding.padding;
  const bool is_inside = x < sliding.input.width && y < sliding.input.height;
  unfolded[term * row_stride + place % pixels] =
      is_inside ? input[(channel * sliding.input.height + y) * sliding.input.width + x] : 0;
}

__global__ void add_biases_kernel(uint32_t count, Activation activation, const float* biases,
                                  uint32_t pixels, float* values) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  values[place] = activate(activation, values[place] + biases[place / pixels]);
}

__global__ void max_pool_kernel(uint32_t count, network::MaxPool pool, Shape in, Shape out,
                                const float* input, float* output) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t channel = place / (out.width * out.height);
  const uint32_t before = pool.padding / 2;
  const uint32_t first_y = place / out.width % out.height * pool.stride - before;
  const uint32_t first_x = place % out.width * pool.stride - before;
  float largest = -FLT_MAX;
  for (uint32_t kernel_y = 0; kernel_y < pool.size; ++kernel_y) {
    for (uint32_t kernel_x = 0; kernel_x < pool.size; ++kernel_x) {
      const uint32_t y = first_y + kernel_y;
      const uint32_t x = first_x + kernel_x;
      if (y >= in.height || x >= in.width) continue;
      largest = fmaxf(largest, input[(channel * in.height + y) * in.width + x]);
    }
  }
  output[place] = largest;
}

// Every thread of the block passes a value. `combine` combines all values, always in the same
// order, and every thread gets the result.
template <typename Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float values[block_threads];
  values[threadIdx.x] = value;
  __syncthreads();
  for (uint32_t half = block_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float result = values[0];
  // All threads must have read the result before the next call writes there.
  __syncthreads();
  return result;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__global__ void average_pool_kernel(uint32_t pixels, const float* values, float* output) {
  const float* channel = values + static_cast<uint64_t>(blockIdx.x) * pixels;
  float sum = 0;
  for (uint32_t pixel = threadIdx.x; pixel < pixels; pixel += block_threads) sum += channel[pixel];
  sum = over_block(sum, Sum());
  if (threadIdx.x == 0) output[blockIdx.x] = sum / static_cast<float>(pixels);
}

// Each value is read and written by the same thread, so input and output may be the same.
__global__ void softmax_kernel(uint32_t elements, float temperature, const float* input,
                               float* output) {
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * elements;
  float largest = -FLT_MAX;
  for (uint32_t i = threadIdx.x; i < elements; i += block_threads) {
    largest = fmaxf(largest, input[first + i]);
  }
  largest = over_block(largest, Larger());
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < elements; i += block_threads) {
    const float power = expf((input[first + i] - largest) / temperature);
    output[first + i] = power;
    sum += power;
  }
  sum = over_block(sum, Sum());
  for (uint32_t i = threadIdx.x; i < elements; i += block_threads) output[first + i] /= sum;
}

__global__ void upsample_kernel(uint32_t count, uint32_t stride, float scale, Shape in, Shape out,
                                const float* input, float* output) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t channel = place / (out.width * out.height);
  const uint32_t y = place / out.width % out.height / stride;
  const uint32_t x = place % out.width / stride;
  output[place] = scale * input[(channel * in.height + y) * in.width + x];
}

__global__ void crop_kernel(uint32_t count, float scale, float shift, Shape in, Shape out,
                            const float* input, float* output) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t channel = place / (out.width * out.height);
  const uint32_t y = place / out.width % out.height + (in.height - out.height) / 2;
  const uint32_t x = place % out.width + (in.width - out.width) / 2;
  output[place] = input[(channel * in.height + y) * in.width + x] * scale + shift;
}

// Steps of rows and columns: the added input's that are skipped, or the output's that get nothing
// added.
struct Steps {
  uint32_t of_added_x;
  uint32_t of_added_y;
  uint32_t of_output_x;
  uint32_t of_output_y;
};

__global__ void shortcut_kernel(uint32_t count, Activation activation, Steps steps,
                                const float* first, Shape added_shape, const float* added,
                                Shape out, float* output) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t channel = place / (out.width * out.height);
  const uint32_t output_y = place / out.width % out.height;
  const uint32_t output_x = place % out.width;
  const uint32_t y = output_y / steps.of_output_y;
  const uint32_t x = output_x / steps.of_output_x;
  const bool is_on_grid = output_y % steps.of_output_y == 0 && output_x % steps.of_output_x == 0;
  float value = first[place];
  if (is_on_grid && channel < added_shape.channels && y < added_shape.height &&
      x < added_shape.width) {
    value += added[(channel * added_shape.height + y * steps.of_added_y) * added_shape.width +
                   x * steps.of_added_x];
  }
  output[place] = activate(activation, value);
}

__global__ void yolo_kernel(uint32_t count, uint32_t entries, uint32_t cells, bool is_activated,
                            float scale, const float* input, float* output) {
  const uint32_t place = piece_of_thread();
  if (place >= count) return;
  const uint32_t entry = place / cells % entries;
  const bool is_position = entry < 2;
  const bool is_size = entry == 2 || entry == 3;
  float value = input[place];
  if (is_activated && !is_size) value = logistic(value);
  // Stretches positions around the middle of the cell.
  if (is_position && scale != 1) value = scale * value - 0.5f * (scale - 1);
  output[place] = value;
}

uint32_t elements(const Shape& shape) { return static_cast<uint32_t>(shape.elements()); }

}  // namespace

void unfold(cudaStream_t stream, const Sliding& sliding, const float* input, uint32_t first_pixel,
            uint32_t pixels, uint32_t row_stride, float* unfolded) {
  const uint32_t terms = sliding.input.channels * sliding.size * sliding.size;
  launch_threads(unfold_kernel, stream, terms * pixels, sliding, input, first_pixel, pixels,
                 row_stride, unfolded);
}

void add_biases(cudaStream_t stream, Activation activation, const float* biases, uint32_t channels,
                uint32_t pixels, float* values) {
  launch_threads(add_biases_kernel, stream, channels * pixels, activation, biases, pixels, values);
}

void max_pool(cudaStream_t stream, const network::Layer& layer, const float* input, float* output) {
  launch_threads(max_pool_kernel, stream, elements(layer.output),
                 std::get<network::MaxPool>(layer.operation), layer.input, layer.output, input,
                 output);
}

void average_pool(cudaStream_t stream, const Shape& input, const float* values, float* output) {
  launch_blocks(average_pool_kernel, stream, input.channels, input.height * input.width, values,
                output);
}

void upsample(cudaStream_t stream, const network::Layer& layer, const float* input, float* output) {
  const auto& it = std::get<network::Upsample>(layer.operation);
  launch_threads(upsample_kernel, stream, elements(layer.output), it.stride, it.scale, layer.input,
                 layer.output, input, output);
}

void crop(cudaStream_t stream, const network::Layer& layer, const float* input, float* output) {
  const auto& it = std::get<network::Crop>(layer.operation);
  launch_threads(crop_kernel, stream, elements(layer.output), it.scale, it.shift, layer.input,
                 layer.output, input, output);
}

void softmax(cudaStream_t stream, uint32_t groups, uint32_t elements_per_group, float temperature,
             const float* input, float* output) {
  launch_blocks(softmax_kernel, stream, groups, elements_per_group, temperature, input, output);
}

void shortcut(cudaStream_t stream, Activation activation, const float* first,
              const Shape& added_shape, const float* added, const Shape& output_shape,
              float* output) {
  const Steps steps = {std::max(1u, added_shape.width / output_shape.width),
                       std::max(1u, added_shape.height / output_shape.height),
                       std::max(1u, output_shape.width / added_shape.width),
                       std::max(1u, output_shape.height / added_shape.height)};
  launch_threads(shortcut_kernel, stream, elements(output_shape), activation, steps, first,
                 added_shape, added, output_shape, output);
}

void yolo(cudaStream_t stream, const network::Layer& layer, const float* input, float* output) {
  const auto& it = std::get<network::Yolo>(layer.operation);
  launch_threads(yolo_kernel, stream, elements(layer.output), it.classes + 5,
                 layer.output.height * layer.output.width, !it.has_new_coordinates, it.scale_x_y,
                 input, output);
}

}  // namespace weightpager::cuda
