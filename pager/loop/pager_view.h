// What a pager lets others see of its files and chunks.
#pragma once

#include <cstdint>
#include <memory>

#include "pager/loop/served_layers.h"
#include "pager/spill/spilled_chunks.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

/// A file that is served, or memory of the engine's own.
struct FileView {
  window::ChunkId first_chunk = 0;
  uint32_t chunks = 0;
  std::shared_ptr<const ServedLayers> layers;
  bool is_memory = false;
  /// Of memory. To be asked while the pager lives.
  spill::BlocksInUse blocks;
};

struct ChunkView {
  window::ChunkState state = window::ChunkState::absent;
  /// Of a chunk that the policy wants to stay, resident or not.
  bool is_pinned = false;
  /// Of memory of the engine's own: what the chunk is brought back from; of a file its number in
  /// Pager::lazy_files(), and the byte that the chunk begins with.
  spill::Home home = spill::Home::zeros;
  uint32_t lazy_file = 0;
  uint64_t offset_bytes = 0;
};

}  // namespace weightpager
