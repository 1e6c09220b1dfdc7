#include "runtime/memory/activations.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "runtime/memory/portfolio.h"

namespace weightpager::memory {
namespace {

using network::Layer;
using network::Network;
using network::network_input;

// A layer's output, or the network's input: a tensor, or a part of one.
struct View {
  uint32_t tensor = 0;
  uint64_t offset_bytes = 0;
};

class Planner {
 public:
  Planner(const Network& network, std::span<const LayerMemory> layers)
      : network_(network), layers_(layers) {
    WP_ASSERT(layers.size() == network.layers.size());
    find_last_readers();
    input_ = new_tensor(0, network.input.size_bytes(), last_reader_of_input_);
    for (uint32_t number = 0; number < network.layers.size(); ++number) {
      outputs_.push_back(place(number));
      std::vector<View>& copies = changed_.emplace_back();
      for (const uint64_t bytes : layers[number].changed_bytes) {
        copies.push_back(place_for_now(number, bytes));
      }
      workspaces_.push_back(place_for_now(number, layers[number].workspace_bytes));
    }
  }

  ActivationLayout finish() {
    ActivationLayout layout;
    layout.plan = choose_offsets(tensors_, Effort::until_bound).plan;
    layout.tensors = std::move(tensors_);
    const auto offset = [&](const View& view) {
      return layout.plan.offset_bytes[view.tensor] + view.offset_bytes;
    };
    layout.input_offset_bytes = offset(input_);
    layout.unshared_bytes = network_.input.size_bytes();
    for (uint32_t number = 0; number < outputs_.size(); ++number) {
      layout.output_offset_bytes.push_back(offset(outputs_[number]));
      layout.workspace_offset_bytes.push_back(offset(workspaces_[number]));
      std::vector<uint64_t>& copies = layout.changed_offset_bytes.emplace_back();
      for (const View& copy : changed_[number]) copies.push_back(offset(copy));
      layout.unshared_bytes += network_.layers[number].output.size_bytes();
    }
    return layout;
  }

 private:
  // A layer's output is needed at least by the layer itself, which writes it.
  void find_last_readers() {
    const uint32_t layers = static_cast<uint32_t>(network_.layers.size());
    last_readers_.resize(layers);
    for (uint32_t number = 0; number < layers; ++number) {
      last_readers_[number] = number;
      for (const uint32_t input : network_.layers[number].inputs) {
        (input == network_input ? last_reader_of_input_ : last_readers_[input]) = number;
      }
    }
    for (uint32_t number = 0; number < layers; ++number) {
      const bool is_kept = number + 1 == layers ||
                           std::holds_alternative<network::Yolo>(network_.layers[number].operation);
      if (is_kept) last_readers_[number] = layers;
    }
  }

  View place(uint32_t number) {
    const Layer& layer = network_.layers[number];
    const uint64_t size_bytes = layers_[number].output_bytes;
    const View first = view_of(layer.inputs[0]);
    const bool sees_first = layers_[number].changed_bytes[0] == 0;
    if (sees_first && is_view(layer)) {
      keep(first.tensor, last_readers_[number]);
      const auto* route = std::get_if<network::Route>(&layer.operation);
      return {first.tensor, first.offset_bytes + (route ? route->group * size_bytes : 0)};
    }
    if (sees_first && may_overwrite(number, layer, first)) {
      keep(first.tensor, last_readers_[number]);
      return first;
    }
    return new_tensor(number, size_bytes, last_readers_[number]);
  }

  // A tensor that only this layer needs.
  View place_for_now(uint32_t number, uint64_t size_bytes) {
    return size_bytes == 0 ? View{} : new_tensor(number, size_bytes, number);
  }

  static bool is_view(const Layer& layer) {
    return std::holds_alternative<network::Dropout>(layer.operation) ||
           std::holds_alternative<network::Cost>(layer.operation) ||
           (std::holds_alternative<network::Route>(layer.operation) && layer.inputs.size() == 1);
  }

  // Only if nothing needs the first input's tensor after this layer, and the layer itself does not
  // read it through another input.
  bool may_overwrite(uint32_t number, const Layer& layer, const View& first) const {
    const bool works_in_place = std::holds_alternative<network::Shortcut>(layer.operation) ||
                                std::holds_alternative<network::Softmax>(layer.operation) ||
                                std::holds_alternative<network::Yolo>(layer.operation);
    if (!works_in_place || tensors_[first.tensor].last_operation > number) return false;
    return std::none_of(layer.inputs.begin() + 1, layer.inputs.end(),
                        [&](uint32_t input) { return view_of(input).tensor == first.tensor; });
  }

  const View& view_of(uint32_t input) const {
    return input == network_input ? input_ : outputs_[input];
  }

  View new_tensor(uint32_t first_operation, uint64_t size_bytes, uint32_t last_operation) {
    tensors_.push_back(
        {first_operation, last_operation, round_up(size_bytes, activation_alignment_bytes)});
    return {static_cast<uint32_t>(tensors_.size()) - 1, 0};
  }

  void keep(uint32_t tensor, uint32_t last_operation) {
    tensors_[tensor].last_operation = std::max(tensors_[tensor].last_operation, last_operation);
  }

  const Network& network_;
  const std::span<const LayerMemory> layers_;
  uint32_t last_reader_of_input_ = 0;
  std::vector<uint32_t> last_readers_;
  std::vector<TensorUsage> tensors_;
  View input_;
  std::vector<View> outputs_;
  std::vector<std::vector<View>> changed_;
  std::vector<View> workspaces_;
};

}  // namespace

std::vector<LayerMemory> plain_memory(const Network& network) {
  std::vector<LayerMemory> layers;
  for (const Layer& layer : network.layers) {
    layers.push_back({layer.output.size_bytes(), std::vector<uint64_t>(layer.inputs.size()), 0});
  }
  return layers;
}

ActivationLayout lay_out(const Network& network, std::span<const LayerMemory> layers) {
  return Planner(network, layers).finish();
}

ActivationLayout lay_out(const Network& network) { return lay_out(network, plain_memory(network)); }

Result<Activations> Activations::make(const Network& network) {
  return make(network, lay_out(network));
}

Result<Activations> Activations::make(const Network& network, ActivationLayout layout) {
  WP_ASSERT(!network.layers.empty());
  const uint64_t length_bytes = round_up(layout.plan.total_bytes, huge_page_bytes);
  auto memory = AnonymousMemory::make(
      length_bytes, "activations",
      "choose a smaller width and height in the .cfg's [net] section, or raise the memory limit "
      "(ulimit -v)");
  if (!memory) return forward_error(std::move(memory));
  Activations made(network, std::move(layout), memory->at(0));
  made.own_ = std::move(*memory);
  return made;
}

Activations::Activations(const Network& network, ActivationLayout layout, void* memory)
    : layout_(std::move(layout)), memory_(memory) {
  for (const Layer& layer : network.layers) {
    std::vector<const float*>& pointers = inputs_.emplace_back();
    for (const uint32_t source : layer.inputs) {
      pointers.push_back(source == network_input ? input() : output(source));
    }
    std::vector<float*>& copies = changed_.emplace_back();
    for (const uint64_t offset : layout_.changed_offset_bytes[inputs_.size() - 1]) {
      copies.push_back(at(offset));
    }
  }
}

float* Activations::at(uint64_t offset_bytes) const {
  return reinterpret_cast<float*>(static_cast<std::byte*>(memory_) + offset_bytes);
}

}  // namespace weightpager::memory
