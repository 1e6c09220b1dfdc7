// A network's activations: how long each layer's output is needed, where it lies, and the memory.
//
// Outputs share one piece of memory by the best plan of portfolio.h. Three things make that smaller
// yet. Layers that only look at an input (dropout, cost, a route of one input) are a view of it.
// Shortcut, softmax and yolo overwrite their first input where nothing needs it afterwards. And
// only outputs that a user asks for are kept until the end: the last layer's and those of yolo
// layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/anonymous_memory.h"
#include "pager/base/result.h"
#include "runtime/memory/plan.h"
#include "runtime/network/network.h"

namespace weightpager::memory {

/// Tensors' sizes are rounded up to this: a line of the cache, a vector of AVX-512.
inline constexpr uint64_t activation_alignment_bytes = 64;

/// The memory that a layer needs, where a plan (plan/layer_choice.h) has tensors in other layouts
/// than Darknet's.
struct LayerMemory {
  uint64_t output_bytes = 0;
  /// By input: a copy in another layout, which exists while the layer runs; 0 where there is none.
  std::vector<uint64_t> changed_bytes;
  /// Memory that the layer needs besides these while it runs.
  uint64_t workspace_bytes = 0;
};

/// By layer: outputs as they are, no copies, no workspace.
std::vector<LayerMemory> plain_memory(const network::Network& network);

struct ActivationLayout {
  /// One for each output (and for the network's input) that is no view of another. Operations are
  /// layers' numbers. An output that is kept for the user is needed by an operation after the last.
  std::vector<TensorUsage> tensors;
  OffsetPlan plan;
  /// All offsets are from the beginning of the memory.
  uint64_t input_offset_bytes = 0;
  std::vector<uint64_t> output_offset_bytes;
  /// By layer and input; without meaning where there is no copy.
  std::vector<std::vector<uint64_t>> changed_offset_bytes;
  std::vector<uint64_t> workspace_offset_bytes;
  /// The total if every layer's output had memory of its own, as in Darknet.
  uint64_t unshared_bytes = 0;
};

/// The layout is for one image. Memory that a layer needs only while it runs lies where no other
/// tensor is at that time.
ActivationLayout lay_out(const network::Network& network, std::span<const LayerMemory> layers);
ActivationLayout lay_out(const network::Network& network);

/// One image's activations. A layer's output is there until the last layer that needs it has run;
/// outputs of yolo layers and of the last layer are there until the next image.
class Activations {
 public:
  static Result<Activations> make(const network::Network& network);
  static Result<Activations> make(const network::Network& network, ActivationLayout layout);
  /// Activations in memory that the caller owns. It has `layout().plan.total_bytes`, and need not
  /// be readable by this process.
  static Activations over(const network::Network& network, void* memory) {
    return Activations(network, lay_out(network), memory);
  }

  const ActivationLayout& layout() const { return layout_; }
  /// Whole pages of memory that this object owns; empty after over().
  std::span<std::byte> pages() const { return {own_.at(0), own_.length_bytes()}; }
  /// The caller fills it before layer 0 runs; later layers overwrite it.
  float* input() const { return at(layout_.input_offset_bytes); }
  float* output(uint32_t layer) const { return at(layout_.output_offset_bytes[layer]); }
  /// A layer's inputs, in its order.
  std::span<const float* const> inputs(uint32_t layer) const { return inputs_[layer]; }
  /// Memory for copies of a layer's inputs, and for its workspace.
  std::span<float* const> changed(uint32_t layer) const { return changed_[layer]; }
  float* workspace(uint32_t layer) const { return at(layout_.workspace_offset_bytes[layer]); }

 private:
  Activations(const network::Network& network, ActivationLayout layout, void* memory);
  float* at(uint64_t offset_bytes) const;

  ActivationLayout layout_;
  AnonymousMemory own_;  // empty after over()
  void* memory_ = nullptr;
  std::vector<std::vector<const float*>> inputs_;
  std::vector<std::vector<float*>> changed_;
};

}  // namespace weightpager::memory
