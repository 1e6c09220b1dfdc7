// Names into layers in execution order.
#include "pager/model/layers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace weightpager::model {
namespace {

/// A model whose file has these tensors in this order.
Model model_of(const std::vector<std::string>& names) {
  Model model;
  model.files = {{"model", 100 * names.size()}};
  for (const std::string& name : names)
    model.tensors.push_back(
        {.name = name, .offset_bytes = 100 * model.tensors.size(), .size_bytes = 100});
  group_layers(model);
  return model;
}

std::vector<std::string> layer_names(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  return names;
}

std::vector<std::string> tensor_names(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers)
    for (const uint32_t tensor : layer.tensors) names.push_back(model.tensors[tensor].name);
  return names;
}

using Names = std::vector<std::string>;

/// Sorting the names alphabetically destroys their order; grouping has to bring it back.
void expect_order(const Names& in_execution_order, const Names& layers) {
  Names shuffled = in_execution_order;
  std::sort(shuffled.begin(), shuffled.end());
  const Model model = model_of(shuffled);
  EXPECT_EQ(tensor_names(model), in_execution_order);
  EXPECT_EQ(layer_names(model), layers);
}

TEST(Layers, GgufLlama) {
  expect_order(
      {"token_embd.weight", "rope_freqs.weight", "blk.2.attn_norm.weight", "blk.2.attn_q.weight",
       "blk.2.attn_k.weight", "blk.2.attn_v.weight", "blk.2.attn_q_norm.weight",
       "blk.2.attn_k_norm.weight", "blk.2.attn_output.weight", "blk.2.ffn_norm.weight",
       "blk.2.ffn_gate.weight", "blk.2.ffn_up.weight", "blk.2.ffn_down.weight",
       "blk.10.attn_norm.weight", "blk.10.ffn_down.weight", "output_norm.weight", "output.weight"},
      {"embedding", "input", "block 2", "block 10", "output"});
}

TEST(Layers, GgufMixtureOfExperts) {
  expect_order(
      {"blk.0.ffn_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_exps.weight",
       "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight", "blk.0.ffn_gate_shexp.weight",
       "blk.0.ffn_up_shexp.weight", "blk.0.ffn_down_shexp.weight"},
      {"block 0"});
}

TEST(Layers, HuggingFaceLlama) {
  expect_order({"model.embed_tokens.weight", "model.layers.2.input_layernorm.weight",
                "model.layers.2.self_attn.q_proj.weight", "model.layers.2.self_attn.k_proj.weight",
                "model.layers.2.self_attn.v_proj.weight", "model.layers.2.self_attn.o_proj.weight",
                "model.layers.2.post_attention_layernorm.weight",
                "model.layers.2.mlp.gate_proj.weight", "model.layers.2.mlp.up_proj.weight",
                "model.layers.2.mlp.down_proj.weight", "model.layers.10.input_layernorm.weight",
                "model.layers.10.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"},
               {"embedding", "block 2", "block 10", "output"});
}

TEST(Layers, HuggingFaceDeepSeek) {
  expect_order(
      {"model.layers.0.self_attn.q_a_proj.weight", "model.layers.0.self_attn.q_a_layernorm.weight",
       "model.layers.0.self_attn.q_b_proj.weight",
       "model.layers.0.self_attn.kv_a_proj_with_mqa.weight",
       "model.layers.0.self_attn.kv_a_layernorm.weight",
       "model.layers.0.self_attn.kv_b_proj.weight", "model.layers.0.self_attn.o_proj.weight",
       "model.layers.0.mlp.gate.weight", "model.layers.0.mlp.experts.0.gate_proj.weight",
       "model.layers.0.mlp.experts.1.gate_proj.weight",
       "model.layers.0.mlp.experts.0.up_proj.weight",
       "model.layers.0.mlp.experts.0.down_proj.weight",
       "model.layers.0.mlp.shared_experts.gate_proj.weight",
       "model.layers.0.mlp.shared_experts.down_proj.weight"},
      {"block 0"});
}

TEST(Layers, Gpt2) {
  const Model model =
      model_of({"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", "h.0.ln_1.weight",
                "h.0.ln_2.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight", "ln_f.bias",
                "ln_f.weight", "wpe.weight", "wte.weight"});
  EXPECT_EQ(layer_names(model), (Names{"embedding", "block 0", "output"}));
  EXPECT_EQ(tensor_names(model),
            (Names{"wpe.weight", "wte.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight",
                   "h.0.attn.c_proj.weight", "h.0.ln_2.weight", "h.0.mlp.c_fc.weight",
                   "h.0.mlp.c_proj.weight", "ln_f.bias", "ln_f.weight", "wte.weight"}));
}

TEST(Layers, Bert) {
  expect_order(
      {"bert.embeddings.word_embeddings.weight", "bert.embeddings.LayerNorm.weight",
       "bert.encoder.layer.0.attention.self.query.weight",
       "bert.encoder.layer.0.attention.self.key.weight",
       "bert.encoder.layer.0.attention.self.value.weight",
       "bert.encoder.layer.0.attention.output.dense.weight",
       "bert.encoder.layer.0.attention.output.LayerNorm.weight",
       "bert.encoder.layer.0.intermediate.dense.weight", "bert.encoder.layer.0.output.dense.weight",
       "bert.encoder.layer.0.output.LayerNorm.weight", "bert.pooler.dense.weight"},
      {"embedding", "input", "encoder block 0", "output"});
}

TEST(Layers, EncoderBeforeDecoder) {
  expect_order(
      {"token_embd.weight", "enc.blk.0.attn_q.weight", "enc.blk.1.attn_q.weight",
       "enc.output_norm.weight", "dec.blk.0.attn_q.weight", "dec.blk.0.cross_attn_q.weight",
       "dec.blk.0.ffn_up.weight", "dec.output_norm.weight", "output.weight"},
      {"embedding", "encoder block 0", "encoder block 1", "encoder output", "block 0", "output"});
}

TEST(Layers, VisionBeforeText) {
  expect_order(
      {"v.patch_embd.weight", "v.blk.0.attn_q.weight", "mm.0.weight", "token_embd.weight",
       "blk.0.attn_q.weight", "output.weight"},
      {"vision input", "vision block 0", "vision output", "embedding", "block 0", "output"});
}

TEST(Layers, UnknownNamesKeepFileOrder) {
  const Model model = model_of({"conv2.weight", "conv2.bias", "conv1.weight", "fc.weight"});
  EXPECT_EQ(layer_names(model), (Names{"conv2", "conv1", "fc"}));
  EXPECT_EQ(model.layers[0].tensors.size(), 2u);
}

TEST(Layers, OnlyEmbeddingsAreSparse) {
  const Model model =
      model_of({"token_embd.weight", "blk.0.attn_q.weight", "output_norm.weight", "output.weight"});
  EXPECT_EQ(model.layers[0].access, Access::sparse);
  EXPECT_EQ(model.layers[1].access, Access::whole);
  EXPECT_EQ(model.layers[2].access, Access::whole);
}

TEST(Layers, TiedEmbeddingIsInTwoLayers) {
  const Model model = model_of({"blk.0.attn_q.weight", "output_norm.weight", "token_embd.weight"});
  ASSERT_EQ(layer_names(model), (Names{"embedding", "block 0", "output"}));
  EXPECT_EQ(model.layers[0].tensors, (std::vector<uint32_t>{2}));
  EXPECT_EQ(model.layers[0].access, Access::sparse);
  EXPECT_EQ(model.layers[2].tensors, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(model.layers[2].access, Access::whole);
  EXPECT_EQ(model.layers[2].size_bytes, 200u);
  EXPECT_EQ(model.weight_bytes(), 300u);
}

TEST(Layers, EveryTensorIsInALayerAndSizesAddUp) {
  EXPECT_TRUE(rc::check([] {
    const auto part = rc::gen::element<std::string>(
        "blk", "0", "7", "layers", "model", "attn_q", "weight", "output", "token_embd", "norm", "h",
        "encoder", "v", "", "99999999999", "mlp", "bias", "shared");
    const auto parts = *rc::gen::container<std::vector<std::vector<std::string>>>(
        rc::gen::container<std::vector<std::string>>(part));
    Names names;
    for (const auto& name_parts : parts) {
      std::string name;
      for (const std::string& text : name_parts) name += (name.empty() ? "" : ".") + text;
      names.push_back(name);
    }
    const Model model = model_of(names);
    std::vector<uint32_t> times(names.size());
    for (const Layer& layer : model.layers) {
      RC_ASSERT(layer.size_bytes == 100 * layer.tensors.size());
      for (const uint32_t tensor : layer.tensors) ++times[tensor];
    }
    for (const uint32_t count : times) RC_ASSERT(count == 1 || count == 2);
    RC_ASSERT(std::count(times.begin(), times.end(), 2) <= 1);
  }));
}

}  // namespace
}  // namespace weightpager::model
