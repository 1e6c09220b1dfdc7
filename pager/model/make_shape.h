// The dimensions of a Llama network of a wanted size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/model/ggml_types.h"
#include "pager/model/make_weights.h"

namespace weightpager::model {

struct LlamaShape {
  uint64_t embedding_length = 0;
  uint64_t feed_forward_length = 0;
  uint64_t block_count = 0;
  uint64_t head_count = 0;
  uint64_t head_count_kv = 0;
  uint64_t head_length = 0;
  uint64_t vocabulary_size = 0;
};

inline constexpr uint64_t llama_context_length = 4096;
inline constexpr double llama_norm_epsilon = 1e-5;
inline constexpr double llama_rope_base = 10'000;

/// A tensor to be made, under the names that it has in both formats.
struct PlannedTensor {
  std::string gguf_name;
  std::string hugging_face_name;
  /// Fastest dimension first.
  std::vector<uint64_t> shape;
  WeightKind kind = WeightKind::matrix;

  uint64_t elements() const;
};

/// The shape most like the real Llamas (feed-forward 3.5 times and blocks 1/128 of the embedding's
/// length) whose tensors and vocabulary take `size_bytes`. The embedding's length is a multiple of
/// 256, so that every type's blocks fit. Requires a size from made_size_bytes_min on (make.h).
LlamaShape choose_llama_shape(uint64_t size_bytes, const GgmlType& type);

/// All tensors in execution order.
std::vector<PlannedTensor> plan_llama_tensors(const LlamaShape& shape);

}  // namespace weightpager::model
