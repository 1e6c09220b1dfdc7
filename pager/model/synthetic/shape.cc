// A small search: for each embedding length and feed-forward length the number of blocks follows
// from the size, and the vocabulary takes up the remainder. Of the shapes that meet the size, the
// one that differs least from the proportions of real Llamas wins. Experts are finer than a dense
// network's feed-forward: proportions of the mixtures of 2024 and later.
#include "pager/model/synthetic/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::model {
namespace {

constexpr std::array<uint64_t, 13> embedding_lengths{256,  512,  768,  1024, 1536,  2048, 3072,
                                                     4096, 5120, 6144, 8192, 12288, 16384};
constexpr uint64_t length_step = 256;
constexpr uint64_t vocabulary_step = 32;
/// Room for the special tokens, the 256 bytes and the letters.
constexpr uint64_t vocabulary_size_min = 416;
constexpr uint64_t vocabulary_size_max = 256'000;
/// What a token costs in a GGUF header, beside its embedding: text, length, score, type.
constexpr uint64_t header_bytes_per_token = 24;
constexpr double size_tolerance = 0.005;

uint64_t usual_vocabulary_size(uint64_t embedding_length) {
  return std::min<uint64_t>(32'000, 8 * embedding_length);
}

double matrix_bytes(uint64_t rows, uint64_t columns, const GgmlType& type) {
  return static_cast<double>(rows) * static_cast<double>(columns) / type.block_elements *
         type.block_bytes;
}

double token_bytes(const LlamaShape& shape, const GgmlType& type) {
  return 2 * matrix_bytes(1, shape.embedding_length, type) + header_bytes_per_token;
}

double block_bytes(const LlamaShape& shape, const GgmlType& type) {
  const uint64_t kv_length = shape.head_count_kv * shape.head_length;
  const double norms = 2 * 4.0 * static_cast<double>(shape.embedding_length);
  const double feed_forward =
      3 * matrix_bytes(shape.feed_forward_length, shape.embedding_length, type);
  const auto experts = static_cast<double>(shape.experts.experts);
  const double router = 4.0 * static_cast<double>(shape.embedding_length) * experts;
  return norms + router + 2 * matrix_bytes(shape.embedding_length, shape.embedding_length, type) +
         2 * matrix_bytes(kv_length, shape.embedding_length, type) +
         feed_forward * std::max(experts, 1.0);
}

double usual_feed_forward_length(const LlamaShape& shape) {
  return (shape.experts.experts == 0 ? 3.5 : 0.75) * static_cast<double>(shape.embedding_length);
}

double model_bytes(const LlamaShape& shape, const GgmlType& type) {
  return static_cast<double>(shape.vocabulary_size) * token_bytes(shape, type) +
         static_cast<double>(shape.block_count) * block_bytes(shape, type);
}

LlamaShape shape_with_lengths(uint64_t embedding_length, uint64_t feed_forward_length,
                              ExpertCounts experts) {
  LlamaShape shape;
  shape.experts = experts;
  shape.embedding_length = embedding_length;
  shape.feed_forward_length = feed_forward_length;
  shape.head_length = embedding_length >= 3072 ? 128 : 64;
  shape.head_count = embedding_length / shape.head_length;
  shape.head_count_kv = std::max<uint64_t>(1, shape.head_count / 4);
  shape.vocabulary_size = usual_vocabulary_size(embedding_length);
  return shape;
}

void fit_to_size(LlamaShape& shape, double size, const GgmlType& type) {
  const double blocks = (size - model_bytes(shape, type)) / block_bytes(shape, type);
  shape.block_count = static_cast<uint64_t>(std::max(1.0, std::round(blocks)));
  shape.vocabulary_size = 0;
  const double steps =
      (size - model_bytes(shape, type)) / token_bytes(shape, type) / vocabulary_step;
  const auto fitted = static_cast<uint64_t>(std::max(0.0, std::round(steps))) * vocabulary_step;
  shape.vocabulary_size = std::clamp(fitted, vocabulary_size_min, vocabulary_size_max);
}

/// How far the shape is from a real Llama's proportions: squared logarithms, 0 at best.
double strangeness(const LlamaShape& shape) {
  const auto deviation = [](uint64_t is, double usual) {
    const double ratio = std::log(static_cast<double>(is) / usual);
    return ratio * ratio;
  };
  const auto embedding_length = static_cast<double>(shape.embedding_length);
  return deviation(shape.block_count, embedding_length / 128) +
         deviation(shape.feed_forward_length, usual_feed_forward_length(shape)) +
         deviation(shape.vocabulary_size,
                   static_cast<double>(usual_vocabulary_size(shape.embedding_length)));
}

PlannedTensor norm(std::string gguf_name, std::string hugging_face_name, uint64_t length) {
  return {std::move(gguf_name), std::move(hugging_face_name), {length}, WeightKind::norm};
}

PlannedTensor matrix(std::string gguf_name, std::string hugging_face_name, uint64_t columns,
                     uint64_t rows) {
  return {std::move(gguf_name), std::move(hugging_face_name), {columns, rows}};
}

void plan_experts(const LlamaShape& shape, uint64_t block, Format format,
                  std::vector<PlannedTensor>& tensors) {
  const uint64_t length = shape.embedding_length;
  const uint64_t experts = shape.experts.experts;
  const std::string gguf = fmt::format("blk.{}.", block);
  const std::string face = fmt::format("model.layers.{}.block_sparse_moe.", block);
  tensors.push_back(matrix(gguf + "ffn_gate_inp.weight", face + "gate.weight", length, experts));
  tensors.back().kind = WeightKind::router;

  struct Part {
    const char* gguf_name;
    const char* hugging_face_name;
    uint64_t columns;
    uint64_t rows;
  };
  const std::array<Part, 3> parts{{{"ffn_gate", "w1", length, shape.feed_forward_length},
                                   {"ffn_up", "w3", length, shape.feed_forward_length},
                                   {"ffn_down", "w2", shape.feed_forward_length, length}}};
  if (format == Format::gguf) {
    for (const Part& part : parts) {
      tensors.push_back(matrix(fmt::format("{}{}_exps.weight", gguf, part.gguf_name), "",
                               part.columns, part.rows));
      tensors.back().shape.push_back(experts);
    }
    return;
  }
  for (uint64_t expert = 0; expert < experts; ++expert)
    for (const Part& part : parts)
      tensors.push_back(
          matrix(fmt::format("{}{}.{}.weight", gguf, part.gguf_name, expert),
                 fmt::format("{}experts.{}.{}.weight", face, expert, part.hugging_face_name),
                 part.columns, part.rows));
}

void plan_block(const LlamaShape& shape, uint64_t block, Format format,
                std::vector<PlannedTensor>& tensors) {
  const auto gguf = [&](std::string_view name) {
    return fmt::format("blk.{}.{}.weight", block, name);
  };
  const auto face = [&](std::string_view name) {
    return fmt::format("model.layers.{}.{}.weight", block, name);
  };
  const uint64_t length = shape.embedding_length;
  const uint64_t kv_length = shape.head_count_kv * shape.head_length;
  const uint64_t ff_length = shape.feed_forward_length;
  tensors.push_back(norm(gguf("attn_norm"), face("input_layernorm"), length));
  tensors.push_back(matrix(gguf("attn_q"), face("self_attn.q_proj"), length, length));
  tensors.push_back(matrix(gguf("attn_k"), face("self_attn.k_proj"), length, kv_length));
  tensors.push_back(matrix(gguf("attn_v"), face("self_attn.v_proj"), length, kv_length));
  tensors.push_back(matrix(gguf("attn_output"), face("self_attn.o_proj"), length, length));
  tensors.push_back(norm(gguf("ffn_norm"), face("post_attention_layernorm"), length));
  if (shape.experts.experts > 0) return plan_experts(shape, block, format, tensors);
  tensors.push_back(matrix(gguf("ffn_gate"), face("mlp.gate_proj"), length, ff_length));
  tensors.push_back(matrix(gguf("ffn_up"), face("mlp.up_proj"), length, ff_length));
  tensors.push_back(matrix(gguf("ffn_down"), face("mlp.down_proj"), ff_length, length));
}

}  // namespace

uint64_t PlannedTensor::elements() const {
  uint64_t product = 1;
  for (const uint64_t dimension : shape) product *= dimension;
  return product;
}

std::optional<LlamaShape> choose_llama_shape(uint64_t size_bytes, const GgmlType& type,
                                             ExpertCounts experts) {
  const auto size = static_cast<double>(size_bytes);
  const uint64_t shortest_share = experts.experts == 0 ? 2 : 0;
  std::optional<LlamaShape> best;
  double best_strangeness = std::numeric_limits<double>::infinity();
  for (const uint64_t embedding_length : embedding_lengths) {
    const uint64_t longest = 5 * embedding_length;
    const uint64_t shortest = std::max(shortest_share * embedding_length, length_step);
    for (uint64_t ff_length = shortest; ff_length <= longest; ff_length += length_step) {
      LlamaShape shape = shape_with_lengths(embedding_length, ff_length, experts);
      fit_to_size(shape, size, type);
      if (std::abs(model_bytes(shape, type) - size) > size_tolerance * size) continue;
      if (strangeness(shape) >= best_strangeness) continue;
      best_strangeness = strangeness(shape);
      best = shape;
    }
  }
  WP_ASSERT(best || experts.experts > 0);
  return best;
}

std::vector<PlannedTensor> plan_llama_tensors(const LlamaShape& shape, Format format) {
  const uint64_t length = shape.embedding_length;
  std::vector<PlannedTensor> tensors;
  tensors.push_back(
      matrix("token_embd.weight", "model.embed_tokens.weight", length, shape.vocabulary_size));
  tensors.back().kind = WeightKind::embedding;
  for (uint64_t block = 0; block < shape.block_count; ++block)
    plan_block(shape, block, format, tensors);
  tensors.push_back(norm("output_norm.weight", "model.norm.weight", length));
  tensors.push_back(matrix("output.weight", "lm_head.weight", length, shape.vocabulary_size));
  return tensors;
}

}  // namespace weightpager::model
