#include "pager/control/memory_blocks.h"

#include <algorithm>

namespace weightpager::control {

using spill::Home;
using window::ChunkState;

namespace {

// As many as an engine's process keeps a list of (pager/preload/shown_blocks.h).
constexpr size_t memory_blocks_max = 4096;

void add_chunk(MemoryBlock& block, const ChunkView& chunk, uint64_t chunk_begin, const Span& part) {
  const uint64_t bytes = part.length_bytes();
  block.residency.add(chunk, bytes);
  if (chunk.home == Home::file) {
    block.lazy_bytes += bytes;
    if (block.lazy_file) return;
    block.lazy_file = chunk.lazy_file;
    const uint64_t front_bytes = chunk_begin - std::min(chunk_begin, block.offset_bytes);
    block.lazy_offset_bytes = chunk.offset_bytes - std::min(chunk.offset_bytes, front_bytes);
  } else if (chunk.home != Home::zeros || chunk.state != ChunkState::absent) {
    block.written_bytes += bytes;
  } else {
    block.zero_bytes += bytes;
  }
}

}  // namespace

void StateBytes::add(const ChunkView& chunk, uint64_t size_bytes) {
  bytes[static_cast<size_t>(chunk.state)] += size_bytes;
  if (chunk.is_pinned) pinned_bytes += size_bytes;
}

std::vector<MemoryBlock> memory_blocks(const FileView& memory, std::span<const ChunkView> chunks,
                                       uint64_t chunk_bytes) {
  std::vector<MemoryBlock> blocks;
  if (memory.blocks.list == nullptr) return blocks;
  std::vector<Span> listed(memory_blocks_max);
  listed.resize(memory.blocks.list(memory.blocks.context, listed));
  for (const Span& span : listed) {
    MemoryBlock block{.offset_bytes = span.begin, .size_bytes = span.length_bytes()};
    for (uint64_t at = span.begin; at < span.end;) {
      const uint64_t index = at / chunk_bytes;
      const uint64_t next = std::min<uint64_t>((index + 1) * chunk_bytes, span.end);
      add_chunk(block, index < chunks.size() ? chunks[index] : ChunkView{}, index * chunk_bytes,
                {at, next});
      at = next;
    }
    blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end(), [](const MemoryBlock& one, const MemoryBlock& other) {
    return one.size_bytes != other.size_bytes ? one.size_bytes > other.size_bytes
                                              : one.offset_bytes < other.offset_bytes;
  });
  return blocks;
}

std::string content_text(const MemoryBlock& block, std::span<const std::string> files) {
  const bool is_mostly_lazy =
      block.lazy_bytes > 0 && block.lazy_bytes >= std::max(block.written_bytes, block.zero_bytes);
  if (is_mostly_lazy && block.lazy_file && *block.lazy_file < files.size()) {
    const std::string& path = files[*block.lazy_file];
    return path.substr(path.rfind('/') + 1) + " @ " + std::to_string(block.lazy_offset_bytes);
  }
  return block.written_bytes >= block.zero_bytes ? "written" : "zeros";
}

}  // namespace weightpager::control
