// Which bytes does one choice of a router need?
//
// A pass uses a few experts of a layer, not all, so the pager must know each expert's bytes.
// Formats lay them out in two ways: one tensor per expert (Hugging Face:
// "…experts.7.up_proj.weight"), or one tensor for all experts of a layer (GGUF:
// "blk.3.ffn_up_exps.weight"), in which the expert is the slowest dimension, so that expert e is
// one contiguous slab. Shared experts ("shared_experts", "…_shexp") serve every token and are no
// experts here. A tensor that is not understood counts as used whole, which costs speed, never
// correctness.
#include "pager/model/experts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace weightpager::model {
namespace {

// Headers are not trusted: a file that claims more slabs than any model has gets no experts for
// the rest, instead of memory for them.
constexpr uint64_t slabs_max = uint64_t{1} << 20;

/// The experts whose weights a tensor holds: `count` slabs of equal size, from `first` on.
struct Holding {
  uint32_t first = 0;
  uint64_t count = 0;
};

std::optional<uint32_t> to_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Of one tensor for all experts: nothing if it is not weights, or cannot be cut evenly.
std::optional<Holding> cut_by(uint64_t experts, const Tensor& tensor) {
  if (tensor.shape.size() != 3 || experts == 0 || tensor.size_bytes % experts != 0)
    return std::nullopt;
  return Holding{0, experts};
}

std::optional<Holding> holding_in_gguf(const Tensor& tensor) {
  for (const std::string_view ending : {".ffn_gate_exps.weight", ".ffn_up_exps.weight",
                                        ".ffn_down_exps.weight", ".ffn_gate_up_exps.weight"})
    if (tensor.name.ends_with(ending) && !tensor.shape.empty())
      return cut_by(tensor.shape.back(), tensor);
  return std::nullopt;
}

std::optional<Holding> holding_in_safetensors(const Tensor& tensor) {
  constexpr std::string_view experts = ".experts.";
  const size_t found = tensor.name.find(experts);
  if (found == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(tensor.name).substr(found + experts.size());
  if (const auto index = to_number(rest.substr(0, rest.find('.')))) return Holding{*index, 1};
  return tensor.shape.empty() ? std::nullopt : cut_by(tensor.shape.front(), tensor);
}

std::optional<Holding> holding(Format format, const Tensor& tensor) {
  if (tensor.size_bytes == 0) return std::nullopt;
  if (format == Format::gguf) return holding_in_gguf(tensor);
  return format == Format::safetensors ? holding_in_safetensors(tensor) : std::nullopt;
}

void add_slabs(const Model& model, uint32_t tensor_index, const Holding& holding,
               std::map<uint32_t, std::vector<Slab>>& slabs) {
  const Tensor& tensor = model.tensors[tensor_index];
  const uint64_t slab_bytes = tensor.size_bytes / holding.count;
  for (uint32_t i = 0; i < holding.count; ++i)
    slabs[holding.first + i].push_back(
        {tensor_index, tensor.offset_bytes + i * slab_bytes, slab_bytes});
}

}  // namespace

void find_experts(Model& model) {
  model.experts.clear();
  uint64_t slab_count = 0;
  for (uint32_t layer = 0; layer < model.layers.size(); ++layer) {
    std::map<uint32_t, std::vector<Slab>> slabs;  // by expert
    for (const uint32_t tensor : model.layers[layer].tensors) {
      const auto held = holding(model.format, model.tensors[tensor]);
      if (!held || held->count > slabs_max - slab_count) continue;
      slab_count += held->count;
      add_slabs(model, tensor, *held, slabs);
    }
    for (auto& [index, of_expert] : slabs)
      model.experts.push_back({layer, index, std::move(of_expert)});
  }
}

}  // namespace weightpager::model
