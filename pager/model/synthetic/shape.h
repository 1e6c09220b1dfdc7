// The dimensions of a Llama network of a wanted size, dense or a mixture of experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/model/ggml_types.h"
#include "pager/model/model.h"
#include "pager/model/synthetic/weights.h"

namespace weightpager::model {

/// Of each layer: how many experts it has, and how many of them a token uses. None: dense.
struct ExpertCounts {
  uint64_t experts = 0;
  uint64_t used = 0;
};

struct LlamaShape {
  uint64_t embedding_length = 0;
  /// Of an expert, if there are any.
  uint64_t feed_forward_length = 0;
  uint64_t block_count = 0;
  uint64_t head_count = 0;
  uint64_t head_count_kv = 0;
  uint64_t head_length = 0;
  uint64_t vocabulary_size = 0;
  ExpertCounts experts;
};

inline constexpr uint64_t llama_context_length = 4096;
inline constexpr double llama_norm_epsilon = 1e-5;
inline constexpr double llama_rope_base = 10'000;

/// A tensor to be made, under the names that it has in both formats. (An expert's, which are
/// tensors of their own in one format only, have the name that GGUF once had for them.)
struct PlannedTensor {
  std::string gguf_name;
  std::string hugging_face_name;
  /// Fastest dimension first.
  std::vector<uint64_t> shape;
  WeightKind kind = WeightKind::matrix;

  uint64_t elements() const;
};

/// The shape most like the real Llamas (feed-forward 3.5 times and blocks 1/128 of the embedding's
/// length; an expert's feed-forward 0.75 times) whose tensors and vocabulary take `size_bytes`. The
/// embedding's length is a multiple of 256, so that every type's blocks fit. Requires a size from
/// made_size_bytes_min on (make_model.h). Nothing if so many experts do not fit into the size.
std::optional<LlamaShape> choose_llama_shape(uint64_t size_bytes, const GgmlType& type,
                                             ExpertCounts experts = {});

/// The tensors of one format in execution order.
std::vector<PlannedTensor> plan_llama_tensors(const LlamaShape& shape, Format format);

}  // namespace weightpager::model
