// See operations.h.
#include "runtime/ops/cuda/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/pipeline/cuda/status.h"

namespace weightpager::cuda {
namespace {

using network::Layer;
using network::Network;
using network::Shape;
using ops::Channels;
using ops::TileWeights;

/// The most memory for unfolded surroundings. Without blocks, YOLOv4 at 608 × 608 would need 106
/// MiB.
constexpr uint64_t scratch_floats_max = 32 * MiB / sizeof(float);
/// Blocks of the picture are multiples of this, so that their rows begin at addresses that suit
/// warps.
constexpr uint64_t block_pixels_unit = 64;
/// Kernels count with 32 bits.
constexpr uint64_t elements_max = INT32_MAX;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

CudaOperations::CudaOperations(const Network& network, MatrixProduct product, cudaStream_t stream)
    : network_(network),
      product_(std::move(product)),
      stream_(stream),
      weighted_(network.layers.size()) {}

Result<CudaOperations> CudaOperations::make(const Network& network, cudaStream_t stream) {
  auto product = MatrixProduct::make();
  if (!product) return forward_error(std::move(product));
  CudaOperations operations(network, std::move(*product), stream);
  uint64_t scratch_floats = 0;
  for (uint32_t number = 0; number < network.layers.size(); ++number) {
    if (Status status = operations.prepare(number); !status) {
      return tl::make_unexpected(about_layer(network, number, std::move(status).error()));
    }
    if (const auto& it = operations.weighted_[number]; it && it->is_unfolded) {
      scratch_floats = std::max(scratch_floats, uint64_t{it->terms} * it->block_pixels);
    }
  }
  auto scratch = DeviceMemory::make(scratch_floats * sizeof(float), "unfolded pictures");
  if (!scratch) return forward_error(std::move(scratch));
  operations.scratch_ = std::move(*scratch);
  return operations;
}

Status CudaOperations::prepare(uint32_t number) {
  const Layer& layer = network_.layers[number];
  if (layer.input.elements() > elements_max || layer.output.elements() > elements_max) {
    return fail("has more values than a GPU's kernel counts here (2^31)",
                "choose a smaller width and height in the .cfg's [net] section");
  }
  Weighted it;
  if (const auto* convolutional = std::get_if<network::Convolutional>(&layer.operation)) {
    it.groups = convolutional->groups;
    it.activation = convolutional->activation;
    it.sliding = {.input = layer.input,
                  .output_width = layer.output.width,
                  .size = convolutional->size,
                  .stride = convolutional->stride,
                  .padding = convolutional->padding};
    it.sliding.input.channels /= it.groups;
    it.is_unfolded =
        convolutional->size != 1 || convolutional->stride != 1 || convolutional->padding != 0;
  } else if (const auto* connected = std::get_if<network::Connected>(&layer.operation)) {
    // Every input value is a channel of one pixel.
    it.activation = connected->activation;
    it.sliding.input = {static_cast<uint32_t>(layer.input.elements()), 1, 1};
    it.sliding.output_width = 1;
  } else {
    return {};
  }
  it.group_channels = layer.output.channels / it.groups;
  it.terms = it.sliding.input.channels * it.sliding.size * it.sliding.size;
  it.pixels = layer.output.height * layer.output.width;
  it.block_pixels = it.pixels;
  if (it.is_unfolded) {
    const uint64_t fitting = round_down(scratch_floats_max / it.terms, block_pixels_unit);
    it.block_pixels =
        static_cast<uint32_t>(std::min<uint64_t>(it.pixels, std::max(fitting, block_pixels_unit)));
  }
  auto method = product_.choose(it.product(it.group_channels, it.block_pixels));
  if (!method) return forward_error(std::move(method));
  it.method = *method;
  weighted_[number] = it;
  return {};
}

MatrixProduct::Shape CudaOperations::Weighted::product(uint64_t channels, uint64_t block) const {
  return {.channels = channels,
          .terms = terms,
          .pixels = block,
          .values_stride = is_unfolded ? block_pixels : pixels,
          .output_stride = pixels};
}

bool CudaOperations::is_tile_boundary(uint32_t layer, uint32_t channel) const {
  const uint32_t channels = network_.layers[layer].output.channels;
  return channel == 0 || channel == channels ||
         (weighted_[layer] && channel < channels && channel % ops::tile_channels == 0);
}

Channels CudaOperations::all_channels(uint32_t layer) const {
  return {0, network_.layers[layer].output.channels};
}

Status CudaOperations::run(uint32_t number, Channels channels, const TileWeights& weights,
                           std::span<const float* const> inputs, float* output) {
  WP_ASSERT(is_tile_boundary(number, channels.begin) && is_tile_boundary(number, channels.end));
  WP_ASSERT(channels.begin < channels.end);
  const Layer& layer = network_.layers[number];
  Status started = weighted_[number]
                       ? run_weighted(*weighted_[number], channels, weights, inputs[0], output)
                       : run_other(layer, inputs, output);
  if (!started) return started;
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return check(error, network::describe_layer(network_, number) + " cannot be computed on the GPU");
}

Status CudaOperations::run_weighted(const Weighted& it, Channels channels,
                                    const TileWeights& weights, const float* input, float* output) {
  const uint64_t group_inputs = it.sliding.input.elements();
  for (uint32_t begin = channels.begin; begin < channels.end;) {
    const uint32_t group = begin / it.group_channels;
    const uint32_t end = std::min(channels.end, (group + 1) * it.group_channels);
    const uint64_t done = begin - channels.begin;
    Status started = run_group(it, end - begin, weights.weights + done * it.terms,
                               input + group * group_inputs, output + uint64_t{begin} * it.pixels);
    if (!started) return started;
    begin = end;
  }
  add_biases(stream_, it.activation, weights.biases, channels.count(), it.pixels,
             output + uint64_t{channels.begin} * it.pixels);
  return {};
}

// Blocks share the scratch memory, because the stream computes them one after the other.
Status CudaOperations::run_group(const Weighted& it, uint32_t channels, const float* weights,
                                 const float* input, float* output) {
  auto* const unfolded = reinterpret_cast<float*>(scratch_.at(0));
  for (uint32_t first = 0; first < it.pixels; first += it.block_pixels) {
    const uint32_t pixels = std::min(it.block_pixels, it.pixels - first);
    const float* values = input + first;
    if (it.is_unfolded) {
      unfold(stream_, it.sliding, input, first, pixels, it.block_pixels, unfolded);
      values = unfolded;
    }
    Status started = product_.run(stream_, it.method, it.product(channels, pixels), weights, values,
                                  output + first);
    if (!started) return started;
  }
  return {};
}

Status CudaOperations::run_other(const Layer& layer, std::span<const float* const> inputs,
                                 float* output) {
  const float* const input = inputs[0];
  const uint64_t elements = layer.output.elements();
  const Overloaded visit{
      [](const network::Convolutional&) { return Status(); },
      [](const network::Connected&) { return Status(); },
      [&](const network::MaxPool&) {
        max_pool(stream_, layer, input, output);
        return Status();
      },
      [&](const network::AveragePool&) {
        average_pool(stream_, layer.input, input, output);
        return Status();
      },
      [&](const network::Upsample&) {
        upsample(stream_, layer, input, output);
        return Status();
      },
      [&](const network::Softmax& it) {
        softmax(stream_, it.groups, static_cast<uint32_t>(elements / it.groups), it.temperature,
                input, output);
        return Status();
      },
      [&](const network::Shortcut& it) {
        shortcut(stream_, it.activation, input, network_.shape_of(layer.inputs[1]), inputs[1],
                 layer.output, output);
        return Status();
      },
      [&](const network::Yolo&) {
        yolo(stream_, layer, input, output);
        return Status();
      },
      [&](const network::Route& it) { return run_route(layer, it, inputs, output); },
      [&](const network::Dropout&) { return copy(input, elements, output); },
      [&](const network::Cost&) { return copy(input, elements, output); },
      [&](const network::Crop&) {
        crop(stream_, layer, input, output);
        return Status();
      },
  };
  return std::visit(visit, layer.operation);
}

Status CudaOperations::run_route(const Layer& layer, const network::Route& route,
                                 std::span<const float* const> inputs, float* output) {
  for (size_t input = 0; input < inputs.size(); ++input) {
    const uint64_t part = network_.shape_of(layer.inputs[input]).elements() / route.groups;
    if (Status copied = copy(inputs[input] + route.group * part, part, output); !copied) {
      return copied;
    }
    output += part;
  }
  return {};
}

Status CudaOperations::copy(const float* from, uint64_t elements, float* to) const {
  if (from == to) return {};
  return check(
      cudaMemcpyAsync(to, from, elements * sizeof(float), cudaMemcpyDeviceToDevice, stream_),
      "values cannot be copied on the GPU");
}

}  // namespace weightpager::cuda
