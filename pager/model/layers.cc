// From names to execution order.
//
// No format says in which order tensors are used, and file order is not it: safetensors files are
// sorted by name ("layers.10" before "layers.2"), converters write what they meet first. The names
// do say it, in two dialects (GGUF's and Hugging Face's). A name gives a section (embedding, block,
// output, …), a block's number and a role in the block; sorting by these three, and by file order
// where they are equal or unknown, is execution order. A name that is wrongly understood costs
// speed, never correctness: the pager follows the engine.
#include "pager/model/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

namespace weightpager::model {
namespace {

/// Parts of a network in the order in which a pass runs through them.
enum class Section {
  vision_input,
  vision_block,
  vision_output,
  embedding,
  input,
  encoder_block,
  encoder_output,
  block,
  output,
  /// Names that nothing is known about. They come last, so that they do not stand in between.
  other,
};

/// A tensor's place in execution order.
struct Place {
  Section section = Section::other;
  /// Of a block: its number.
  uint32_t block = 0;
  /// In a block: index into `block_roles`.
  uint32_t role = 0;
  /// Position among all tensors: by file, then by offset.
  uint64_t file_order = 0;
  uint32_t tensor = 0;

  auto key() const { return std::tuple(section, block, role, file_order); }
};

// --- names --------------------------------------------------------------------------------------

/// The parts of a name between its dots, without the ending that says what kind of parameter it is.
std::vector<std::string_view> split_name(std::string_view name) {
  for (const std::string_view ending : {".weight", ".bias", ".scale", ".gamma", ".beta"})
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      break;
    }
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('.', start), name.size());
    parts.push_back(name.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

using Words = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view word, Words words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool has_part(const std::vector<std::string_view>& parts, Words words) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return is_one_of(part, words); });
}

std::optional<uint32_t> to_block_number(std::string_view part) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || end != part.data() + part.size()) return std::nullopt;
  return number;
}

/// The index of the part that is a block's number: "7" in "model.layers.7.mlp".
std::optional<size_t> find_block_part(const std::vector<std::string_view>& parts) {
  for (size_t i = 1; i < parts.size(); ++i)
    if (to_block_number(parts[i]) &&
        is_one_of(parts[i - 1], {"blk", "layers", "layer", "h", "block", "blocks"}))
      return i;
  return std::nullopt;
}

// --- roles in a block ---------------------------------------------------------------------------

/// How the names of a block's tensors end, in the order in which engines use them; the endings of
/// one line are of one role. The longest ending that fits decides: "attention.output.dense" is not
/// "output.dense".
struct Role {
  std::array<std::string_view, 12> endings;
};

constexpr auto block_roles = std::to_array<Role>({
    {"attn_norm", "attn_norm_2", "input_layernorm", "ln_1", "norm1", "layer_norm1", "ln1",
     "self_attn_layer_norm", "attention_norm", "layer.0.layer_norm"},
    {"attn_qkv", "qkv_proj", "c_attn", "query_key_value", "in_proj", "ssm_in", "qkv"},
    {"attn_q_a", "q_a_proj"},
    {"attn_q_a_norm", "q_a_layernorm"},
    {"attn_q", "q_proj", "attn_q_b", "q_b_proj", "attention.self.query", "SelfAttention.q", "wq"},
    {"attn_kv_a_mqa", "kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "kv_a_layernorm"},
    {"attn_k", "k_proj", "attn_kv_b", "attn_k_b", "kv_b_proj", "attention.self.key",
     "SelfAttention.k", "wk"},
    {"attn_v", "v_proj", "attn_v_b", "attention.self.value", "SelfAttention.v", "wv"},
    {"attn_q_norm", "q_norm", "query_layernorm"},
    {"attn_k_norm", "k_norm", "key_layernorm"},
    {"rope_freqs", "rotary_emb.inv_freq", "attn_rot_embd", "rope_factors_long", "attn_rel_b",
     "relative_attention_bias", "attn.bias", "attn.masked_bias"},
    {"ssm_conv1d", "conv1d"},
    {"ssm_x", "x_proj"},
    {"ssm_dt", "dt_proj", "dt_bias"},
    {"ssm_a", "A_log", "ssm_d", "D"},
    {"ssm_norm", "mixer.norm"},
    {"attn_sinks", "sinks"},
    {"attn_sub_norm", "attn_output_gate"},
    {"attn_output", "attn_out", "o_proj", "attn.c_proj", "attention.output.dense", "attn.out_proj",
     "self_attention.dense", "SelfAttention.o", "wo", "ssm_out", "self_attn.out_proj", "out_proj"},
    {"attn_post_norm", "post_attention_norm", "attn_output_norm", "attention.output.LayerNorm"},
    {"cross_attn_norm", "encoder_attn_layer_norm", "layer.1.layer_norm"},
    {"cross_attn_q", "encoder_attn.q_proj", "EncDecAttention.q"},
    {"cross_attn_k", "encoder_attn.k_proj", "EncDecAttention.k"},
    {"cross_attn_v", "encoder_attn.v_proj", "EncDecAttention.v"},
    {"cross_attn_output", "encoder_attn.out_proj", "EncDecAttention.o", "cross_attn_out"},
    {"post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm", "ln_2", "norm2", "layer_norm2", "ln2", "mlp_norm",
     "final_layer_norm", "layer.2.layer_norm"},
    {"ffn_gate_inp", "mlp.gate", "block_sparse_moe.gate", "router", "ffn_exp_probs_b",
     "e_score_correction_bias", "feed_forward.gate"},
    {"ffn_gate_up_exps", "gate_up_proj"},
    {"ffn_gate", "ffn_gate_exps", "gate_proj", "w1", "fc1"},
    {"ffn_up", "ffn_up_exps", "up_proj", "w3", "c_fc", "intermediate.dense", "dense_h_to_4h", "wi",
     "wi_0", "wi_1"},
    {"ffn_sub_norm"},
    {"ffn_down", "ffn_down_exps", "down_proj", "w2", "mlp.c_proj", "output.dense", "dense_4h_to_h",
     "DenseReluDense.wo", "fc2"},
    {"ffn_gate_inp_shexp", "shared_expert_gate"},
    {"ffn_gate_shexp", "shared_experts.gate_proj", "shared_expert.gate_proj"},
    {"ffn_up_shexp", "shared_experts.up_proj", "shared_expert.up_proj"},
    {"ffn_down_shexp", "shared_experts.down_proj", "shared_expert.down_proj"},
    {"ffn_post_norm", "post_ffw_norm", "layer_output_norm", "post_feedforward_layernorm",
     "output.LayerNorm"},
});

/// True if `name` is `ending` or ends in a dot and `ending`.
bool ends_in(std::string_view name, std::string_view ending) {
  return !ending.empty() && name.ends_with(ending) &&
         (name.size() == ending.size() || name[name.size() - ending.size() - 1] == '.');
}

/// Roles that are not known come last in their block.
uint32_t role_in_block(std::string_view name) {
  uint32_t best = block_roles.size();
  size_t best_length = 0;
  for (uint32_t role = 0; role < block_roles.size(); ++role)
    for (const std::string_view ending : block_roles[role].endings)
      if (ending.size() > best_length && ends_in(name, ending)) {
        best = role;
        best_length = ending.size();
      }
  return best;
}

// --- sections -----------------------------------------------------------------------------------

bool is_vision(const std::vector<std::string_view>& parts) {
  return has_part(parts, {"v", "mm", "a", "vision_tower", "vision_model", "visual", "audio_tower",
                          "multi_modal_projector"});
}

bool is_encoder(const std::vector<std::string_view>& parts) {
  return has_part(parts, {"enc", "encoder"});
}

Section section_of_block(const std::vector<std::string_view>& parts_before) {
  if (is_vision(parts_before)) return Section::vision_block;
  return is_encoder(parts_before) ? Section::encoder_block : Section::block;
}

Section section_by_name(const std::vector<std::string_view>& parts) {
  const std::string_view word = parts.back();
  if (is_vision(parts)) {
    const bool is_input = is_one_of(parts[0], {"v", "a"})
                              ? word != "post_ln"
                              : has_part(parts, {"embeddings", "patch_embed"});
    return is_input ? Section::vision_input : Section::vision_output;
  }
  if (is_one_of(word, {"token_embd", "embed_tokens", "wte", "word_embeddings", "tok_embeddings",
                       "shared", "embed_in", "position_embd", "wpe", "position_embeddings",
                       "embed_positions", "token_types", "token_type_embeddings",
                       "per_layer_token_embd", "embed_tokens_per_layer"}))
    return Section::embedding;
  if (is_one_of(word, {"token_embd_norm", "rope_freqs", "rope_factors_long", "rope_factors_short",
                       "layernorm_embedding", "word_embeddings_layernorm"}) ||
      has_part(parts, {"embeddings"}))
    return Section::input;
  if (is_one_of(word, {"output_norm", "norm", "ln_f", "final_layer_norm", "final_layernorm",
                       "layer_norm", "norm_f"}))
    return is_encoder(parts) ? Section::encoder_output : Section::output;
  if (is_one_of(word, {"output", "lm_head", "embed_out", "cls", "score", "classifier"}) ||
      has_part(parts, {"pooler", "cls"}))
    return Section::output;
  return Section::other;
}

/// In the output section, norms come before the matrix.
uint32_t role_in_output(std::string_view word) {
  return word.find("norm") != std::string_view::npos || word == "ln_f" ? 0 : 1;
}

Place find_place(const std::string& name) {
  const std::vector<std::string_view> parts = split_name(name);
  Place place;
  if (const auto number_part = find_block_part(parts)) {
    const auto number = parts.begin() + static_cast<std::ptrdiff_t>(*number_part);
    place.section = section_of_block({parts.begin(), number});
    place.block = *to_block_number(*number);
    place.role = role_in_block(fmt::format("{}", fmt::join(number + 1, parts.end(), ".")));
    return place;
  }
  place.section = section_by_name(parts);
  if (place.section == Section::output) place.role = role_in_output(parts.back());
  return place;
}

std::vector<Place> places_in_execution_order(const Model& model) {
  std::vector<uint32_t> file_order(model.tensors.size());
  for (uint32_t i = 0; i < file_order.size(); ++i) file_order[i] = i;
  std::sort(file_order.begin(), file_order.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [&](uint32_t i) {
      return std::tuple(model.tensors[i].file, model.tensors[i].offset_bytes, i);
    };
    return key(a) < key(b);
  });

  std::vector<Place> places;
  for (uint64_t i = 0; i < file_order.size(); ++i) {
    Place place = find_place(model.tensors[file_order[i]].name);
    place.tensor = file_order[i];
    place.file_order = i;
    places.push_back(place);
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.key() < b.key(); });
  return places;
}

// --- layers -------------------------------------------------------------------------------------

/// "conv1" of "conv1.weight" and "conv1.bias": where nothing else is known, these are a layer.
std::string name_without_ending(const std::string& name) {
  const std::vector<std::string_view> parts = split_name(name);
  const size_t length =
      static_cast<size_t>(parts.back().data() - name.data()) + parts.back().size();
  return name.substr(0, length);
}

std::string layer_name(const Place& place, const std::string& tensor_name) {
  switch (place.section) {
    case Section::vision_input:
      return "vision input";
    case Section::vision_block:
      return fmt::format("vision block {}", place.block);
    case Section::vision_output:
      return "vision output";
    case Section::embedding:
      return "embedding";
    case Section::input:
      return "input";
    case Section::encoder_block:
      return fmt::format("encoder block {}", place.block);
    case Section::encoder_output:
      return "encoder output";
    case Section::block:
      return fmt::format("block {}", place.block);
    case Section::output:
      return "output";
    case Section::other:
      break;
  }
  return name_without_ending(tensor_name);
}

void add_tensor(Model& model, uint32_t tensor) {
  Layer& layer = model.layers.back();
  layer.tensors.push_back(tensor);
  layer.size_bytes += model.tensors[tensor].size_bytes;
}

bool is_token_embedding(const std::string& name) {
  return is_one_of(split_name(name).back(), {"token_embd", "embed_tokens", "wte", "word_embeddings",
                                             "tok_embeddings", "shared", "embed_in"});
}

/// A token embedding that is the output matrix, too, and the norm that is used before it.
struct TiedOutput {
  uint32_t embedding = 0;
  uint32_t after = 0;
};

/// Found where there is a norm to go before an output matrix, but no such matrix.
std::optional<TiedOutput> find_tied_output(const Model& model, const std::vector<Place>& places) {
  std::optional<uint32_t> embedding;
  std::optional<uint32_t> norm;
  for (const Place& place : places) {
    if (place.section == Section::output && place.role > 0) return std::nullopt;
    if (place.section == Section::output) norm = place.tensor;
    if (place.section == Section::embedding && is_token_embedding(model.tensors[place.tensor].name))
      embedding = place.tensor;
  }
  if (!embedding || !norm) return std::nullopt;
  return TiedOutput{*embedding, *norm};
}

}  // namespace

void group_layers(Model& model) {
  const std::vector<Place> places = places_in_execution_order(model);
  const std::optional<TiedOutput> tied = find_tied_output(model, places);
  model.layers.clear();
  for (const Place& place : places) {
    std::string name = layer_name(place, model.tensors[place.tensor].name);
    if (model.layers.empty() || model.layers.back().name != name) {
      const Access access = place.section == Section::embedding ? Access::sparse : Access::whole;
      model.layers.push_back({.name = std::move(name), .access = access});
    }
    add_tensor(model, place.tensor);
    if (tied && place.tensor == tied->after) add_tensor(model, tied->embedding);
  }
}

}  // namespace weightpager::model
