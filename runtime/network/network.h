// A Darknet network: what each section of its .cfg computes, from what, and with which weights.
//
// Problem. To run a network a layer at a time, a program must know, before it reads the first byte
// of a weight, every layer's shape, its inputs, and where its weights lie. Darknet's own loader
// finds that out while it allocates everything.
//
// Idea. One flat list of layers in execution order, each a plain value. Inputs are numbers of
// earlier layers, and sizes follow from the shapes. Nothing here holds weights or activations.
//
// Every section but [net] is a layer, also a section that computes nothing (route, dropout, cost).
// Darknet and the Demand Layering paper (Table I) count in this way, too.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::network {

/// The shape of one image's activations, in memory as [channels][height][width], 32-bit floats. A
/// connected layer's output has height = width = 1.
struct Shape {
  uint32_t channels = 0;
  uint32_t height = 0;
  uint32_t width = 0;

  uint64_t elements() const { return uint64_t{channels} * height * width; }
  uint64_t size_bytes() const { return elements() * sizeof(float); }
  bool operator==(const Shape&) const = default;
};

enum class Activation { linear, leaky, relu, logistic, mish, swish };

/// Cross-correlation over `groups` of channels, then scale and shift (batch normalization, or the
/// bias alone), then the activation. The input has a border of zeros, `padding` wide, on all sides.
struct Convolutional {
  uint32_t filters = 0;
  uint32_t size = 0;
  uint32_t stride = 1;
  uint32_t padding = 0;
  uint32_t groups = 1;
  bool is_batch_normalized = false;
  Activation activation = Activation::linear;
};

/// Every output depends on every input.
struct Connected {
  uint32_t outputs = 0;
  bool is_batch_normalized = false;
  Activation activation = Activation::linear;
};

/// Darknet's `padding` is the sum of both sides: ⌊padding / 2⌋ before, the rest after. Padding does
/// not count in a maximum.
struct MaxPool {
  uint32_t size = 0;
  uint32_t stride = 0;
  uint32_t padding = 0;
};

/// The mean of each channel.
struct AveragePool {};

/// Cuts out the middle of each channel, then scales and shifts it.
struct Crop {
  float scale = 1;
  float shift = 0;
};

/// Computes nothing at inference.
struct Dropout {};

/// Concatenates channels of its inputs: of each input the `group`-th of `groups` equal parts.
struct Route {
  uint32_t groups = 1;
  uint32_t group = 0;
};

/// Adds its second input (an earlier layer) to its first (the layer before). Where shapes differ,
/// it does as Darknet does: it skips or spreads rows and columns, and keeps the first input's
/// channels beyond the smaller number.
struct Shortcut {
  Activation activation = Activation::linear;
};

/// Repeats rows and columns `stride` times, and scales.
struct Upsample {
  uint32_t stride = 2;
  float scale = 1;
};

/// Turns a grid of `mask.size()` boxes per cell into boxes, objectness and class probabilities.
struct Yolo {
  uint32_t classes = 0;
  /// Pairs of width and height in pixels of the network's input; `mask` chooses from them.
  std::vector<float> anchors;
  std::vector<uint32_t> mask;
  float scale_x_y = 1;
  /// The layer before has already applied the logistic function (scaled YOLOv4).
  bool has_new_coordinates = false;
  /// Of boxes of one class that overlap, only the surest is to be kept. If true, boxes whose
  /// centers are far apart count as less overlapping: by (distance / diagonal of both)² to the
  /// power of the exponent (nms_kind=diounms, beta_nms).
  bool counts_distance = false;
  float distance_exponent = 0.6F;
};

/// Over each of `groups` equal parts of the input.
struct Softmax {
  uint32_t groups = 1;
  float temperature = 1;
};

/// Computes nothing at inference.
struct Cost {};

using Operation = std::variant<Convolutional, Connected, MaxPool, AveragePool, Dropout, Route,
                               Shortcut, Upsample, Yolo, Softmax, Cost, Crop>;

/// Stands for the network's own input, in place of a layer's number.
inline constexpr uint32_t network_input = UINT32_MAX;

struct Layer {
  Operation operation;
  /// Numbers of earlier layers, or network_input. Route: one or more; shortcut: two; others: one.
  std::vector<uint32_t> inputs;
  /// The shape of the first input.
  Shape input;
  Shape output;
  /// Where the section begins in the .cfg, from 1.
  uint32_t line = 0;

  /// The floats that the .weights file has for this layer, batch normalization not folded: one bias
  /// (and, if normalized, scale, mean and variance) per output channel, then the weights.
  uint64_t channels_with_bias() const;
  uint64_t weights() const;
  bool is_batch_normalized() const;
  uint64_t raw_bytes() const;
  /// With batch normalization folded into biases and weights: the bytes that a pass has to read.
  uint64_t folded_bytes() const;
};

struct Network {
  Shape input;
  /// In execution order.
  std::vector<Layer> layers;

  /// The output of an earlier layer, or the network's input.
  const Shape& shape_of(uint32_t source) const {
    return source == network_input ? input : layers[source].output;
  }

  /// The ordinary .weights file: a header of 20 bytes, then every layer's raw bytes.
  uint64_t weights_file_bytes() const;
  uint64_t folded_bytes() const;
  uint64_t largest_folded_bytes() const;
};

/// "convolutional", "route", …: the section's name in a .cfg.
const char* section_name(const Operation& operation);
const char* activation_name(Activation activation);
/// The function that the layer applies to its values at its end: linear, where its section has
/// none.
Activation activation_of(const Layer& layer);

/// Whether the layer's weights may come some output channels at a time. Layers with several groups
/// are not cut: channels of different groups have different inputs, and such layers are small
/// anyway.
bool can_be_cut(const Layer& layer);
/// "layer 57 (convolutional, line 612)": for messages.
std::string describe_layer(const Network& network, size_t layer);
/// The error, with the name of its layer in front.
Error about_layer(const Network& network, uint32_t number, Error error);

}  // namespace weightpager::network
