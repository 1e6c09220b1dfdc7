// Which bytes belong to which expert, in every layout that names experts.
#include "pager/model/experts.h"

#include <gtest/gtest.h>

#include "pager/model/layers.h"
#include "tests/model/gguf_bytes.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::model {
namespace {

Model model_of(Format format, std::vector<Tensor> tensors) {
  Model model;
  model.format = format;
  model.files = {{"model", uint64_t{1} << 40}};
  uint64_t offset_bytes = 64;
  for (Tensor& tensor : tensors) {
    tensor.offset_bytes = offset_bytes;
    offset_bytes += tensor.size_bytes;
  }
  model.tensors = std::move(tensors);
  group_layers(model);
  find_experts(model);
  return model;
}

/// "0/3: 64+100 1264+100": layer/index, then the slabs.
std::string describe(const Expert& expert) {
  std::string text = std::to_string(expert.layer) + "/" + std::to_string(expert.index) + ":";
  for (const Slab& slab : expert.slabs)
    text += " " + std::to_string(slab.offset_bytes) + "+" + std::to_string(slab.size_bytes);
  return text;
}

std::vector<std::string> describe(const Model& model) {
  std::vector<std::string> lines;
  for (const Expert& expert : model.experts) lines.push_back(describe(expert));
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Experts, GgufSlabsAreSlicesOfOneTensorForAll) {
  const Model model =
      model_of(Format::gguf,
               {{.name = "blk.0.ffn_gate_inp.weight", .shape = {8, 2}, .size_bytes = 64},
                {.name = "blk.0.ffn_down_exps.weight", .shape = {4, 8, 2}, .size_bytes = 200},
                {.name = "blk.0.ffn_gate_exps.weight", .shape = {8, 4, 2}, .size_bytes = 300},
                {.name = "blk.0.ffn_up_exps.weight", .shape = {8, 4, 2}, .size_bytes = 400},
                {.name = "blk.1.ffn_gate_up_exps.weight", .shape = {8, 8, 2}, .size_bytes = 600},
                {.name = "blk.1.ffn_gate_exps.bias", .shape = {8, 2}, .size_bytes = 64},
                {.name = "blk.1.ffn_gate_shexp.weight", .shape = {8, 4}, .size_bytes = 100}});
  // Slabs in execution order: gate, up, down.
  EXPECT_EQ(describe(model), (Lines{"0/0: 328+150 628+200 128+100", "0/1: 478+150 828+200 228+100",
                                    "1/0: 1028+300", "1/1: 1328+300"}));
}

TEST(Experts, HuggingFaceHasOneTensorForEach) {
  const Model model =
      model_of(Format::safetensors,
               {{.name = "model.layers.0.block_sparse_moe.gate.weight", .size_bytes = 10},
                {.name = "model.layers.0.block_sparse_moe.experts.0.w1.weight", .size_bytes = 100},
                {.name = "model.layers.0.block_sparse_moe.experts.0.w2.weight", .size_bytes = 100},
                {.name = "model.layers.0.block_sparse_moe.experts.0.w3.weight", .size_bytes = 100},
                {.name = "model.layers.0.block_sparse_moe.experts.10.w1.weight", .size_bytes = 100},
                {.name = "model.layers.1.mlp.experts.2.gate_proj.weight", .size_bytes = 100},
                {.name = "model.layers.1.mlp.experts.2.up_proj.weight", .size_bytes = 100},
                {.name = "model.layers.1.mlp.experts.2.down_proj.weight", .size_bytes = 100},
                {.name = "model.layers.1.mlp.shared_experts.up_proj.weight", .size_bytes = 100}});
  EXPECT_EQ(describe(model), (Lines{"0/0: 74+100 274+100 174+100", "0/10: 374+100",
                                    "1/2: 474+100 574+100 674+100"}));
}

TEST(Experts, HuggingFaceMayHaveOneTensorForAll) {
  const Model model = model_of(
      Format::safetensors,
      {{.name = "model.layers.0.mlp.experts.gate_up_proj", .shape = {2, 8, 8}, .size_bytes = 400},
       {.name = "model.layers.0.mlp.experts.gate_up_proj_bias", .shape = {2, 8}, .size_bytes = 4},
       {.name = "model.layers.0.mlp.experts.down_proj", .shape = {2, 8, 4}, .size_bytes = 200}});
  EXPECT_EQ(describe(model), (Lines{"0/0: 64+200 468+100", "0/1: 264+200 568+100"}));
}

TEST(Experts, ATensorThatCannotBeCutEvenlyCountsAsUsedWhole) {
  const Model model = model_of(
      Format::gguf, {{.name = "blk.0.ffn_up_exps.weight", .shape = {8, 4, 3}, .size_bytes = 100},
                     {.name = "blk.0.ffn_gate_exps.weight", .shape = {8, 4}, .size_bytes = 100},
                     {.name = "blk.0.ffn_down_exps.weight", .shape = {4, 8, 0}, .size_bytes = 0}});
  EXPECT_TRUE(model.experts.empty());
}

TEST(Experts, ClaimsBeyondReasonGetNoMemory) {
  const uint64_t many = uint64_t{1} << 30;
  const Model model =
      model_of(Format::gguf,
               {{.name = "blk.0.ffn_up_exps.weight", .shape = {1, 1, many}, .size_bytes = 4 * many},
                {.name = "blk.1.ffn_up_exps.weight", .shape = {1, 1, 2}, .size_bytes = 8}});
  EXPECT_EQ(model.experts.size(), 2u);
}

TEST(Experts, GgufSaysHowManyATokenUses) {
  TemporaryDirectory directory;
  GgufBytes gguf = small_gguf();
  gguf.pair("llama.expert_count", GgufBytes::u32, GgufBytes::number(uint32_t{8}));
  gguf.pair("llama.expert_used_count", GgufBytes::u32, GgufBytes::number(uint32_t{2}));
  directory.write("m.gguf", gguf.bytes());
  const Result<Model> model = open_model(directory.path("m.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->experts_used, 2u);
}

}  // namespace
}  // namespace weightpager::model
