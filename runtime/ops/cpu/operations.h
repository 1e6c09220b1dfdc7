// Computes the layers of a Darknet network on a CPU.
//
// Problem. The executor has a layer's weights, or a tile of them, somewhere in its window for as
// long as the layer runs. The operations must use them there, must not need memory that grows, and
// must give the same bits however the layer is cut.
//
// Idea. Everything that can be decided before the first image is decided then: the code that
// computes a layer, and the size of its scratch memory. Running a layer then only takes pointers.
// oneDNN does the arithmetic (primitive.h, convolution.h). Here are the parts that only Darknet
// has: concatenation, its shortcut between unequal shapes, its yolo layer.
//
// The threads are OpenMP's, which oneDNN uses as well.
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

/// Computes one inference at a time. Any thread may call, but only one at a time.
class CpuOperations {
 public:
  /// The owner of the memory that convolutions unfold pictures into. A caller who brings this
  /// memory also chooses layouts, so max pooling then takes no detour through another layout
  /// (max_pooling.h).
  enum class Scratch { own, callers };

  /// `threads`: the number of threads that compute, including the caller. `unfolding`: how
  /// convolutions unfold pictures. `may_take` is called with the size before scratch memory is
  /// taken. `runs_here`: the layers that are run; code for the others is not made. Empty: all
  /// layers. Fails if oneDNN has no fast code for a layer, or if `may_take` fails.
  static Result<CpuOperations> make(const network::Network& network, int threads,
                                    Scratch scratch = Scratch::own,
                                    Unfold unfolding = Unfold::by_tile,
                                    const std::function<Status(uint64_t)>& may_take = {},
                                    const std::function<bool(uint32_t)>& runs_here = {});

  /// Whether a tile of this layer may begin or end at this output channel. Only convolutional and
  /// connected layers can be cut; for all others only 0 and the number of channels are boundaries.
  bool is_tile_boundary(uint32_t layer, uint32_t channel) const;
  /// All output channels of a layer.
  Channels all_channels(uint32_t layer) const;

  /// Computes output channels [begin, end) of a layer for one image. `inputs` has one pointer for
  /// each of the layer's inputs, and `output` points to the layer's whole output, both in the order
  /// of network::Shape. `weights` are those of the tile; layers without weights ignore them.
  ///
  /// In place: for shortcut, softmax, yolo, dropout and cost the output may be the first input; for
  /// a route with one input it may be the route's part of that input. Otherwise output and inputs
  /// must not overlap. `scratch`: scratch_bytes(layer) bytes, if the scratch memory is the
  /// caller's. `meanwhile` is called once, by the calling thread; in convolutions the other threads
  /// compute during the call.
  Status run(uint32_t layer, Channels channels, const TileWeights& weights,
             std::span<const float* const> inputs, float* output, float* scratch = nullptr,
             const std::function<void()>& meanwhile = {});

  /// Scratch memory of one layer, for all threads: for the unfolded pictures of convolutions, and
  /// for the detours of max pooling.
  uint64_t scratch_bytes(uint32_t layer) const;
  /// Scratch memory that this object owns, for all layers: that of the layers, unless it is the
  /// caller's, and that of oneDNN's operations.
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
  // By layer: the code that computes it. It is in one of these vectors, or in none if the layer
  // only moves values.
  std::vector<std::optional<Convolution>> convolutions_;
  std::vector<std::optional<MaxPooling>> max_poolings_;
  std::vector<std::optional<Primitive>> primitives_;
  // By function and number of elements; many layers share them.
  std::map<std::pair<Elementwise, uint64_t>, Primitive> elementwise_;
  std::vector<float> scratch_;
  float* scratch_begin_ = nullptr;  // the first aligned float of scratch_
};

}  // namespace weightpager::ops
