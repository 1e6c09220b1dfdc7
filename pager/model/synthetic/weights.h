// Random weights, in every element type that models are made with.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pager/model/ggml_types.h"

namespace weightpager::model {

/// What a tensor's weights are like. Matrices are noise around 0 with a standard deviation of
/// 0.014, as trained networks have; norms are scales from 1 to 1.06; routers choose experts, are
/// like matrices, and always stored in a type that norms may have. Embeddings are 32 times as large
/// as matrices, so that the next token depends on the last one and generation does not get stuck.
enum class WeightKind { norm, matrix, embedding, router };

/// Of F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K; norms are F32, F16 or BF16.
bool can_make_weights(const GgmlType& type);

/// The seed of one tensor's weights.
uint64_t tensor_seed(uint64_t model_seed, std::string_view tensor_name);

/// Fills `words` with the tensor's bytes from word `first_word` (8 bytes each) on. What a word
/// holds depends on the seed and on its number only, so pieces may be filled in any order. Requires
/// that the piece starts at a block's start; a block that the piece cuts off at its end is left
/// unfinished.
void fill_weights(const GgmlType& type, WeightKind kind, uint64_t seed, uint64_t first_word,
                  std::span<uint64_t> words);

}  // namespace weightpager::model
