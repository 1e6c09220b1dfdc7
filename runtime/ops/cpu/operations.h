// What the layers of a Darknet network compute, on a CPU.
//
// Problem. The executor has a layer's weights, or a tile of them, somewhere in its window for as
// long as the layer runs. The operations must take them from there, need no memory that grows, and
// give the same bits however the layer is cut up.
//
// Idea. Everything that can be decided before the first image is: which code computes a layer, how
// large its scratch memory is. Running a layer then takes pointers. The arithmetic is oneDNN's
// (primitive.h, convolution.h); what only Darknet has is here: concatenation, its shortcut between
// unequal shapes, its yolo layer.
//
// Threads are OpenMP's, which oneDNN uses as well.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/convolution.h"
#include "runtime/ops/cpu/max_pooling.h"
#include "runtime/ops/cpu/primitive.h"

namespace weightpager::ops {

/// One inference at a time; any thread may call, one after the other.
class CpuOperations {
 public:
  /// Whose memory convolutions unfold their surroundings into. A caller who brings it chooses
  /// layouts himself, so maxima over windows then take no detour through another one
  /// (max_pooling.h).
  enum class Scratch { own, callers };

  /// `threads` is how many compute, the caller among them. `unfolding`: of convolutions' pictures.
  /// Fails where oneDNN has no fast code for a layer, and where `may_take` does, which is asked
  /// before so many bytes of scratch memory are taken. `runs_here`: layers that are run; code for
  /// the others is not made. Empty: all.
  static Result<CpuOperations> make(const network::Network& network, int threads,
                                    Scratch scratch = Scratch::own,
                                    Unfold unfolding = Unfold::by_tile,
                                    const std::function<Status(uint64_t)>& may_take = {},
                                    const std::function<bool(uint32_t)>& runs_here = {});

  /// Whether a tile of this layer may begin or end at this output channel. Only convolutional and
  /// connected layers can be cut; of the others only 0 and the number of channels are boundaries.
  bool is_tile_boundary(uint32_t layer, uint32_t channel) const;
  /// All output channels of a layer.
  Channels all_channels(uint32_t layer) const;

  /// Computes output channels [begin, end) of a layer for one image. `inputs` has one pointer for
  /// each of the layer's inputs, `output` points to the layer's whole output, both as
  /// network::Shape says; `weights` to those of the tile (ignored by layers without).
  ///
  /// In place: the output may be the first input of shortcut, softmax, yolo, dropout and cost, and
  /// where a route has one input, its part of that. Else they are apart.
  /// `scratch`: so many bytes as scratch_bytes(layer) says, where it is the caller's. `meanwhile`
  /// is called once, by the calling thread; in convolutions the others compute during it.
  Status run(uint32_t layer, Channels channels, const TileWeights& weights,
             std::span<const float* const> inputs, float* output, float* scratch = nullptr,
             const std::function<void()>& meanwhile = {});

  /// Memory for the unfolded surroundings of convolutions, for all threads, and for maxima's
  /// detours: of one layer.
  uint64_t scratch_bytes(uint32_t layer) const;
  /// Its own for all layers: that, unless it is the caller's, and what oneDNN's operations need.
  uint64_t scratch_bytes() const { return scratch_.size() * sizeof(float); }

 private:
  CpuOperations(const network::Network& network, int threads, Scratch whose, Unfold unfolding);
  Status prepare(uint32_t number);
  Status take_scratch(const std::function<Status(uint64_t)>& may_take);
  Status prepare_elementwise(const Elementwise& function, uint64_t elements);
  Status prepare_activation(const network::Layer& layer, network::Activation activation);
  Status prepare_yolo(const network::Layer& layer, const network::Yolo& yolo);

  Status run_primitive(uint32_t number, const float* input, float* output);
  Status run_elementwise(const Elementwise& function, uint64_t elements, float* values);
  Status run_weighted(uint32_t number, network::Activation activation, Channels channels,
                      const TileWeights& weights, const float* input, float* output, float* scratch,
                      const std::function<void()>& meanwhile);
  Status run_activation(const network::Layer& layer, network::Activation activation,
                        uint32_t channels, float* values);
  Status run_softmax(uint32_t number, const network::Softmax& softmax, const float* input,
                     float* output);
  Status run_shortcut(uint32_t number, const network::Shortcut& shortcut,
                      std::span<const float* const> inputs, float* output);
  Status run_route(const network::Layer& layer, const network::Route& route,
                   std::span<const float* const> inputs, float* output);
  Status run_crop(const network::Layer& layer, const network::Crop& crop, const float* input,
                  float* output) const;
  Status run_yolo(const network::Layer& layer, const network::Yolo& yolo, const float* input,
                  float* output);
  Status copy(const float* from, uint64_t elements, float* to) const;

  network::Network network_;
  int threads_;
  Scratch whose_scratch_;
  Unfold unfolding_;
  dnnl::stream stream_;
  // By layer: what computes it. One of these, or none where there are only values to be moved.
  std::vector<std::optional<Convolution>> convolutions_;
  std::vector<std::optional<MaxPooling>> max_poolings_;
  std::vector<std::optional<Primitive>> primitives_;
  // By function and number of elements; many layers share them.
  std::map<std::pair<Elementwise, uint64_t>, Primitive> elementwise_;
  std::vector<float> scratch_;
  float* scratch_begin_ = nullptr;  // in scratch_, aligned
};

}  // namespace weightpager::ops
