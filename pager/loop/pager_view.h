// What a pager lets others see of its files and chunks.
#pragma once

#include <cstdint>
#include <memory>

#include "pager/loop/served_layers.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

struct FileView {
  window::ChunkId first_chunk = 0;
  uint32_t chunks = 0;
  std::shared_ptr<const ServedLayers> layers;
};

struct ChunkView {
  window::ChunkState state = window::ChunkState::absent;
  /// Of a chunk that the policy wants to stay, resident or not.
  bool is_pinned = false;
};

}  // namespace weightpager
