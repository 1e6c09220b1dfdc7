// An engine that goes to and fro between two halves of its memory: ONNX Runtime does, whose
// prepacked matrices lie in two rows of blocks.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "pager/policy/policy.h"

namespace weightpager::policy {

/// A pass over `chunks` chunks: a block of the upper half, one of the lower half, and so on. The
/// leaps to and fro are equally long, forward across the end.
inline std::vector<ChunkId> two_halves_in_turn(uint32_t chunks, uint32_t block) {
  std::vector<ChunkId> lower(chunks / 2 - block / 2);
  std::vector<ChunkId> upper(chunks - lower.size());
  std::iota(lower.begin(), lower.end(), 0u);
  std::iota(upper.begin(), upper.end(), static_cast<ChunkId>(lower.size()));
  std::vector<ChunkId> pass;
  for (size_t at = 0; at < upper.size(); at += block) {
    for (const auto* half : {&upper, &lower}) {
      const size_t end = std::min(at + block, half->size());
      for (size_t i = at; i < end; ++i) pass.push_back((*half)[i]);
    }
  }
  return pass;
}

}  // namespace weightpager::policy
