#include "runtime/ops/cpu/operations.h"

#include <omp.h>

#include <algorithm>
#include <bit>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::ops {
namespace {

using network::Activation;
using network::Layer;

// Threads share a copy in pieces of this size.
constexpr uint64_t copy_floats = 256 * KiB / sizeof(float);

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// An activation is computed in pieces of 16 · 2^n channels and a rest, so that few primitives serve
// tiles of every size.
template <typename Visit>
Status for_each_piece(uint32_t channels, Visit visit) {
  while (channels > 0) {
    const uint32_t piece = channels < tile_channels
                               ? channels
                               : tile_channels * std::bit_floor(channels / tile_channels);
    if (Status status = visit(piece); !status) return status;
    channels -= piece;
  }
  return {};
}

// Steps of Darknet's shortcut, in rows or columns: either the added input's are skipped, or the
// output's are spread.
struct Steps {
  uint64_t of_added = 1;
  uint64_t of_output = 1;
};
Steps steps(uint32_t added, uint32_t output) {
  return {std::max(1u, added / output), std::max(1u, output / added)};
}

void add_unequal(const float* added, const network::Shape& added_shape, float* output,
                 const network::Shape& output_shape) {
  const Steps columns = steps(added_shape.width, output_shape.width);
  const Steps rows = steps(added_shape.height, output_shape.height);
  const uint32_t width = std::min(added_shape.width, output_shape.width);
  const uint32_t height = std::min(added_shape.height, output_shape.height);
  const uint32_t channels = std::min(added_shape.channels, output_shape.channels);
#pragma omp parallel for schedule(static)
  for (uint32_t channel = 0; channel < channels; ++channel) {
    for (uint32_t y = 0; y < height; ++y) {
      const float* from =
          added + (uint64_t{channel} * added_shape.height + y * rows.of_added) * added_shape.width;
      float* to = output + (uint64_t{channel} * output_shape.height + y * rows.of_output) *
                               output_shape.width;
      for (uint32_t x = 0; x < width; ++x) to[x * columns.of_output] += from[x * columns.of_added];
    }
  }
}

// Stretches the values between 0 and 1 around their middle, so that a box can reach its cell's
// edge.
Elementwise centred_scale(float scale) { return Elementwise::linear(scale, -0.5f * (scale - 1)); }

}  // namespace

CpuOperations::CpuOperations(const network::Network& network, int threads, Scratch whose,
                             Unfold unfolding)
    : network_(network),
      threads_(threads),
      whose_scratch_(whose),
      unfolding_(unfolding),
      stream_(cpu_engine()),
      convolutions_(network.layers.size()),
      max_poolings_(network.layers.size()),
      primitives_(network.layers.size()) {}

Result<CpuOperations> CpuOperations::make(const network::Network& network, int threads,
                                          Scratch scratch, Unfold unfolding,
                                          const std::function<Status(uint64_t)>& may_take,
                                          const std::function<bool(uint32_t)>& runs_here) {
  WP_ASSERT(threads >= 1);
  // oneDNN compiles for the number of threads that OpenMP is set to.
  omp_set_num_threads(threads);
  CpuOperations operations(network, threads, scratch, unfolding);
  for (uint32_t number = 0; number < network.layers.size(); ++number) {
    if (runs_here && !runs_here(number)) continue;
    if (Status status = operations.prepare(number); !status) {
      return tl::make_unexpected(about_layer(network, number, std::move(status).error()));
    }
  }
  if (Status taken = operations.take_scratch(may_take); !taken) {
    return forward_error(std::move(taken));
  }
  return operations;
}

// Layers run one after the other, and share the scratch memory. A convolution's unfolded picture
// stays while its activation is computed. A layer that is a single operation may use all of the
// memory.
Status CpuOperations::take_scratch(const std::function<Status(uint64_t)>& may_take) {
  uint64_t unfolded_bytes = 0;
  uint64_t single_bytes = 0;
  uint64_t beside_bytes = 0;
  for (uint32_t number = 0; number < network_.layers.size(); ++number) {
    if (whose_scratch_ == Scratch::own) {
      unfolded_bytes = std::max(unfolded_bytes, scratch_bytes(number));
    }
    if (const auto& it = primitives_[number]) {
      single_bytes = std::max(single_bytes, it->scratch_bytes());
    }
    if (const auto& it = max_poolings_[number]) {
      uint64_t& bytes = it->scratch_floats() == 0 ? single_bytes : beside_bytes;
      bytes = std::max(bytes, it->primitive_scratch_bytes());
    }
  }
  for (const auto& [key, it] : elementwise_) {
    beside_bytes = std::max(beside_bytes, it.scratch_bytes());
  }
  unfolded_bytes = round_up(unfolded_bytes, Primitive::scratch_alignment);
  const uint64_t bytes = std::max(unfolded_bytes + beside_bytes, single_bytes);
  if (may_take) {
    if (Status may = may_take(bytes); !may) return may;
  }
  if (bytes == 0) return {};
  scratch_.resize((bytes + Primitive::scratch_alignment) / sizeof(float));
  scratch_begin_ = reinterpret_cast<float*>(
      round_up(reinterpret_cast<uintptr_t>(scratch_.data()), Primitive::scratch_alignment));
  void* const beside = scratch_begin_ + unfolded_bytes / sizeof(float);
  for (auto& it : primitives_) {
    if (it) it->use_scratch(scratch_begin_);
  }
  for (auto& it : max_poolings_) {
    if (it) it->use_primitive_scratch(it->scratch_floats() == 0 ? scratch_begin_ : beside);
  }
  for (auto& [key, it] : elementwise_) it.use_scratch(beside);
  return {};
}

uint64_t CpuOperations::scratch_bytes(uint32_t layer) const {
  const auto& convolution = convolutions_.at(layer);
  if (convolution) return convolution->scratch_floats() * sizeof(float);
  const auto& max_pooling = max_poolings_[layer];
  return max_pooling ? max_pooling->scratch_floats() * sizeof(float) : 0;
}

Status CpuOperations::prepare(uint32_t number) {
  const Layer& layer = network_.layers[number];
  const auto keep = [&](Result<Primitive> made) -> Status {
    if (!made) return forward_error(std::move(made));
    primitives_[number] = std::move(*made);
    return {};
  };
  const Overloaded visit{
      [&](const network::Convolutional& it) {
        convolutions_[number].emplace(layer, threads_, unfolding_);
        return applies_activation(layer) ? Status() : prepare_activation(layer, it.activation);
      },
      [&](const network::Connected& it) {
        convolutions_[number].emplace(layer, threads_, unfolding_);
        return applies_activation(layer) ? Status() : prepare_activation(layer, it.activation);
      },
      [&](const network::MaxPool&) {
        if (whose_scratch_ == Scratch::callers) return keep(Primitive::max_pool(layer));
        auto made = MaxPooling::make(layer);
        if (!made) return Status(forward_error(std::move(made)));
        max_poolings_[number] = std::move(*made);
        return Status();
      },
      [&](const network::AveragePool&) { return keep(Primitive::average_pool(layer)); },
      [&](const network::Upsample&) { return keep(Primitive::nearest_upsample(layer)); },
      [&](const network::Softmax& it) {
        if (it.temperature != 1) {
          Status status = prepare_elementwise(Elementwise::linear(1 / it.temperature, 0),
                                              layer.output.elements());
          if (!status) return status;
        }
        return keep(Primitive::softmax(it.groups, layer.output.elements() / it.groups));
      },
      [&](const network::Shortcut& it) {
        if (network_.shape_of(layer.inputs[1]) == layer.output) {
          return keep(Primitive::add(layer.output.elements(), it.activation));
        }
        return prepare_activation(layer, it.activation);
      },
      [&](const network::Yolo& it) { return prepare_yolo(layer, it); },
      [](const network::Dropout&) { return Status(); },
      [](const network::Route&) { return Status(); },
      [](const network::Cost&) { return Status(); },
      [](const network::Crop&) { return Status(); },
  };
  return std::visit(visit, layer.operation);
}

Status CpuOperations::prepare_elementwise(const Elementwise& function, uint64_t elements) {
  if (elementwise_.contains({function, elements})) return {};
  Result<Primitive> made = Primitive::elementwise(function, elements);
  if (!made) return forward_error(std::move(made));
  elementwise_.emplace(std::pair(function, elements), std::move(*made));
  return {};
}

Status CpuOperations::prepare_activation(const Layer& layer, Activation activation) {
  const auto function = Elementwise::of(activation);
  if (!function) return {};
  const uint64_t pixels = uint64_t{layer.output.height} * layer.output.width;
  for (uint32_t channels = tile_channels; channels <= layer.output.channels; channels *= 2) {
    if (Status status = prepare_elementwise(*function, channels * pixels); !status) return status;
  }
  const uint32_t rest = layer.output.channels % tile_channels;
  return rest == 0 ? Status() : prepare_elementwise(*function, rest * pixels);
}

Status CpuOperations::prepare_yolo(const Layer& layer, const network::Yolo& yolo) {
  const uint64_t cells = uint64_t{layer.output.height} * layer.output.width;
  if (!yolo.has_new_coordinates) {
    for (const uint64_t entries : {uint64_t{2}, uint64_t{yolo.classes} + 1}) {
      Status status = prepare_elementwise(Elementwise::logistic(), entries * cells);
      if (!status) return status;
    }
  }
  if (yolo.scale_x_y == 1) return {};
  return prepare_elementwise(centred_scale(yolo.scale_x_y), 2 * cells);
}

bool CpuOperations::is_tile_boundary(uint32_t layer, uint32_t channel) const {
  if (convolutions_[layer]) return convolutions_[layer]->is_tile_boundary(channel);
  return channel == 0 || channel == network_.layers[layer].output.channels;
}

Channels CpuOperations::all_channels(uint32_t layer) const {
  return {0, network_.layers[layer].output.channels};
}

Status CpuOperations::run(uint32_t number, Channels channels, const TileWeights& weights,
                          std::span<const float* const> inputs, float* output, float* scratch,
                          const std::function<void()>& meanwhile) {
  const Layer& layer = network_.layers[number];
  WP_ASSERT(inputs.size() == layer.inputs.size());
  if (scratch == nullptr) scratch = scratch_begin_;
  // The setting belongs to the calling thread, which may be a different one each time.
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
  if (!convolutions_[number]) {
    WP_ASSERT(channels == all_channels(number));
    if (meanwhile) meanwhile();
  }
  const Overloaded visit{
      [&](const network::Convolutional& it) {
        return run_weighted(number, it.activation, channels, weights, inputs[0], output, scratch,
                            meanwhile);
      },
      [&](const network::Connected& it) {
        return run_weighted(number, it.activation, channels, weights, inputs[0], output, scratch,
                            meanwhile);
      },
      [&](const network::MaxPool&) {
        if (!max_poolings_[number]) return run_primitive(number, inputs[0], output);
        return max_poolings_[number]->run(stream_, inputs[0], output, scratch);
      },
      [&](const network::AveragePool&) { return run_primitive(number, inputs[0], output); },
      [&](const network::Upsample&) { return run_primitive(number, inputs[0], output); },
      [&](const network::Softmax& it) { return run_softmax(number, it, inputs[0], output); },
      [&](const network::Shortcut& it) { return run_shortcut(number, it, inputs, output); },
      [&](const network::Yolo& it) { return run_yolo(layer, it, inputs[0], output); },
      [&](const network::Route& it) { return run_route(layer, it, inputs, output); },
      [&](const network::Dropout&) { return copy(inputs[0], layer.output.elements(), output); },
      [&](const network::Cost&) { return copy(inputs[0], layer.output.elements(), output); },
      [&](const network::Crop& it) { return run_crop(layer, it, inputs[0], output); },
  };
  return std::visit(visit, layer.operation);
}

Status CpuOperations::run_primitive(uint32_t number, const float* input, float* output) {
  return primitives_[number]->run(stream_, {input, output});
}

Status CpuOperations::run_elementwise(const Elementwise& function, uint64_t elements,
                                      float* values) {
  const auto found = elementwise_.find({function, elements});
  WP_ASSERT(found != elementwise_.end());
  return found->second.run(stream_, {values, values});
}

Status CpuOperations::run_weighted(uint32_t number, Activation activation, Channels channels,
                                   const TileWeights& weights, const float* input, float* output,
                                   float* scratch, const std::function<void()>& meanwhile) {
  const Layer& layer = network_.layers[number];
  Status status = convolutions_[number]->run(channels, weights, input, output, scratch, meanwhile);
  if (!status || applies_activation(layer)) return status;
  const uint64_t pixels = uint64_t{layer.output.height} * layer.output.width;
  return run_activation(layer, activation, channels.count(), output + channels.begin * pixels);
}

Status CpuOperations::run_activation(const Layer& layer, Activation activation, uint32_t channels,
                                     float* values) {
  const auto function = Elementwise::of(activation);
  if (!function) return {};
  const uint64_t pixels = uint64_t{layer.output.height} * layer.output.width;
  return for_each_piece(channels, [&](uint32_t piece) {
    Status status = run_elementwise(*function, piece * pixels, values);
    values += piece * pixels;
    return status;
  });
}

Status CpuOperations::run_softmax(uint32_t number, const network::Softmax& softmax,
                                  const float* input, float* output) {
  if (softmax.temperature == 1) return run_primitive(number, input, output);
  const uint64_t elements = network_.layers[number].output.elements();
  const auto scaled =
      elementwise_.find({Elementwise::linear(1 / softmax.temperature, 0), elements});
  WP_ASSERT(scaled != elementwise_.end());
  if (Status status = scaled->second.run(stream_, {input, output}); !status) return status;
  return run_primitive(number, output, output);
}

Status CpuOperations::run_shortcut(uint32_t number, const network::Shortcut& shortcut,
                                   std::span<const float* const> inputs, float* output) {
  const Layer& layer = network_.layers[number];
  if (primitives_[number]) return primitives_[number]->run(stream_, {inputs[0], inputs[1], output});
  if (Status status = copy(inputs[0], layer.output.elements(), output); !status) return status;
  add_unequal(inputs[1], network_.shape_of(layer.inputs[1]), output, layer.output);
  return run_activation(layer, shortcut.activation, layer.output.channels, output);
}

Status CpuOperations::run_route(const Layer& layer, const network::Route& route,
                                std::span<const float* const> inputs, float* output) {
  for (size_t input = 0; input < inputs.size(); ++input) {
    const uint64_t part = network_.shape_of(layer.inputs[input]).elements() / route.groups;
    if (Status status = copy(inputs[input] + route.group * part, part, output); !status) {
      return status;
    }
    output += part;
  }
  return {};
}

// Networks crop only their input picture, so this is little work, done once.
Status CpuOperations::run_crop(const Layer& layer, const network::Crop& crop, const float* input,
                               float* output) const {
  const network::Shape& whole = layer.input;
  const network::Shape& part = layer.output;
  const uint32_t top = (whole.height - part.height) / 2;
  const uint32_t left = (whole.width - part.width) / 2;
  for (uint32_t row = 0; row < part.channels * part.height; ++row) {
    const uint64_t channel = row / part.height;
    const uint64_t from_row = channel * whole.height + top + row % part.height;
    const float* const from = input + from_row * whole.width + left;
    float* const to = output + uint64_t{row} * part.width;
    for (uint32_t x = 0; x < part.width; ++x) to[x] = from[x] * crop.scale + crop.shift;
  }
  return {};
}

// Each anchor of the grid has x and y, width and height, objectness, and the classes.
Status CpuOperations::run_yolo(const Layer& layer, const network::Yolo& yolo, const float* input,
                               float* output) {
  if (Status status = copy(input, layer.output.elements(), output); !status) return status;
  const uint64_t cells = uint64_t{layer.output.height} * layer.output.width;
  for (size_t anchor = 0; anchor < yolo.mask.size(); ++anchor) {
    float* entries = output + anchor * (yolo.classes + 5) * cells;
    if (!yolo.has_new_coordinates) {
      Status status = run_elementwise(Elementwise::logistic(), 2 * cells, entries);
      if (!status) return status;
      status = run_elementwise(Elementwise::logistic(), (yolo.classes + uint64_t{1}) * cells,
                               entries + 4 * cells);
      if (!status) return status;
    }
    if (yolo.scale_x_y == 1) continue;
    Status status = run_elementwise(centred_scale(yolo.scale_x_y), 2 * cells, entries);
    if (!status) return status;
  }
  return {};
}

Status CpuOperations::copy(const float* from, uint64_t elements, float* to) const {
  if (from == to) return {};
#pragma omp parallel for schedule(static) num_threads(threads_)
  for (uint64_t begin = 0; begin < elements; begin += copy_floats) {
    std::copy(from + begin, from + std::min(elements, begin + copy_floats), to + begin);
  }
  return {};
}

}  // namespace weightpager::ops
