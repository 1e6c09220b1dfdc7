// What is known beforehand about how chunks are used. The files tell the order of a pass, its
// layers, the experts; the access profile of an earlier run may say more (AccessProfile).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/window/chunk_table.h"

namespace weightpager::policy {

using window::ChunkId;
using window::ChunkState;
using window::ChunkTable;

/// For an offset in a chunk that is not known.
inline constexpr uint32_t anywhere = UINT32_MAX;

/// The bytes of a chunk that belong to an expert.
struct ChunkPart {
  ChunkId chunk = window::no_chunk;
  uint32_t begin_bytes = 0;
  uint32_t end_bytes = 0;
};

/// One expert's chunks. Chunks that tensors other than experts use, too, are left out.
struct ExpertChunks {
  /// Layers with experts, numbered in execution order.
  uint32_t layer = 0;
  /// In execution order: gate, up, down.
  std::vector<std::vector<ChunkPart>> slabs;
};

/// What a policy has learned about how an engine uses the chunks. Another policy may begin with it.
struct AccessProfile {
  /// In the order in which a pass visits them. Chunks that it comes back to are there as often.
  std::vector<ChunkId> order;
  /// By place in `order`: how long the engine computes from the chunk, in whole ns; all 0 if only
  /// the order is known.
  std::vector<float> computed_ns;

  bool is_empty() const { return order.empty(); }
};

struct ChunkOrder {
  /// Chunks that every pass touches, in the order of their first touch. No duplicates.
  std::vector<ChunkId> cyclic;
  /// Where in `cyclic` layers begin, ascending; empty: nothing is known of layers.
  std::vector<uint32_t> layer_begins;
  /// Chunks of `cyclic` that a pass comes back to later (two tensors share the chunk).
  std::vector<ChunkId> revisited;
  /// Chunks of `cyclic` that hold the end of one tensor and the beginning of another, ascending.
  /// Both tensors have more chunks: those before it, and those behind it.
  std::vector<ChunkId> shared;
  /// Chunks that the user wants to stay, before others.
  std::vector<ChunkId> kept;
  /// By layer, then by place in the file. None of their chunks is cyclic.
  std::vector<ExpertChunks> experts;
  /// Whether chunks belong to files, by chunk; what lies behind its end is the engine's own memory.
  std::vector<bool> is_of_file;
  /// Speaks of all these chunks or of some of them; mostly empty.
  AccessProfile access_profile;
  /// The engine has loaded its weights. It may not use again what it used for that, such as weights
  /// that it has copied.
  bool is_load_over = false;
};

}  // namespace weightpager::policy
