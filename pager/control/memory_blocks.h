// The large blocks of an engine's own memory (`run --spill`), as others see them: how long each is,
// where its bytes are, and what it holds.
//
// What a block holds is told by where its chunks are brought back from: bytes of a file that the
// engine read, the spill file, or nothing yet. A chunk that is in the window and comes from nothing
// was touched, and counts as written.
//
// Pure but for the list of blocks, which is asked for without a lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/loop/pager_view.h"

namespace weightpager::control {

/// Bytes by the state of the chunks that hold them.
struct StateBytes {
  /// Indexed by window::ChunkState; a view knows no other states.
  static constexpr size_t states = 5;
  std::array<uint64_t, states> bytes{};
  uint64_t pinned_bytes = 0;

  void add(const ChunkView& chunk, uint64_t size_bytes);
};

struct MemoryBlock {
  uint64_t offset_bytes = 0;  // in the memory
  uint64_t size_bytes = 0;
  StateBytes residency;
  // What it holds; these add up to the size.
  uint64_t written_bytes = 0;
  uint64_t lazy_bytes = 0;  // of files that the engine read
  uint64_t zero_bytes = 0;
  /// The first of these files, by its number in Pager::lazy_files(), and the byte of that file at
  /// which the block begins (or, if that is before the file, the first one that the block has).
  std::optional<uint32_t> lazy_file;
  uint64_t lazy_offset_bytes = 0;
};

/// The blocks of a view of memory, the largest first. `chunks`: those of the memory.
std::vector<MemoryBlock> memory_blocks(const FileView& memory, std::span<const ChunkView> chunks,
                                       uint64_t chunk_bytes);

/// What most of the block is: "weights.bin @ 4096", "written" or "zeros". `files`: the names of the
/// files by number.
std::string content_text(const MemoryBlock& block, std::span<const std::string> files);

}  // namespace weightpager::control
