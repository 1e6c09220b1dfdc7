// What blocks of the engine's own memory hold, by where their chunks come from.
#include "pager/control/memory_blocks.h"

#include <gtest/gtest.h>

#include "pager/base/units.h"
#include "pager/control/open_metrics.h"

namespace weightpager::control {
namespace {

using spill::Home;
using window::ChunkState;

constexpr uint64_t memory_chunk_bytes = 2 * MiB;

/// A memory of eight chunks; blocks: [1, 9) MiB and [9, 10) MiB.
FileView memory_of_two_blocks() {
  FileView view;
  view.chunks = 8;
  view.is_memory = true;
  view.blocks.list = [](const void*, std::span<Span> blocks) -> size_t {
    blocks[0] = {9 * MiB, 10 * MiB};
    blocks[1] = {1 * MiB, 9 * MiB};
    return 2;
  };
  return view;
}

TEST(MemoryBlocks, HoldFilesOrWhatWasWrittenOrZeros) {
  std::vector<ChunkView> chunks(8);
  chunks[0] = {.state = ChunkState::mapped};  // touched, and nowhere else
  chunks[1] = {
      .state = ChunkState::absent, .home = Home::file, .lazy_file = 1, .offset_bytes = 7 * MiB};
  chunks[2] = {.state = ChunkState::mapped, .is_pinned = true, .home = Home::spill_file};
  const auto blocks = memory_blocks(memory_of_two_blocks(), chunks, memory_chunk_bytes);
  ASSERT_EQ(blocks.size(), 2u);
  const MemoryBlock& large = blocks[0];
  EXPECT_EQ(large.offset_bytes, 1 * MiB);
  EXPECT_EQ(large.size_bytes, 8 * MiB);
  EXPECT_EQ(large.written_bytes, 3 * MiB);
  EXPECT_EQ(large.lazy_bytes, 2 * MiB);
  EXPECT_EQ(large.zero_bytes, 3 * MiB);
  EXPECT_EQ(large.residency.bytes[static_cast<size_t>(ChunkState::mapped)], 3 * MiB);
  EXPECT_EQ(large.residency.pinned_bytes, 2 * MiB);
  // The block begins one MiB before the chunk.
  EXPECT_EQ(large.lazy_offset_bytes, 6 * MiB);
  const std::vector<std::string> files = {"/a", "/models/weights.bin"};
  EXPECT_EQ(content_text(large, files), "written");
  MemoryBlock mostly_read = large;
  mostly_read.lazy_bytes += 2 * MiB;
  EXPECT_EQ(content_text(mostly_read, files), "weights.bin @ " + std::to_string(6 * MiB));
  EXPECT_EQ(content_text(blocks[1], files), "zeros");
}

TEST(MemoryBlocks, OfAFileThatBeginsInsideTheBlockTheFirstByteIsTold) {
  std::vector<ChunkView> chunks(8);
  chunks[1] = {.home = Home::file, .lazy_file = 0, .offset_bytes = 512 * KiB};
  const auto blocks = memory_blocks(memory_of_two_blocks(), chunks, memory_chunk_bytes);
  EXPECT_EQ(blocks[0].lazy_offset_bytes, 0u);
}

TEST(MemoryBlocks, AreFewLinesOfMetrics) {
  const auto telemetry = std::make_unique<telemetry::Telemetry>();
  std::vector<MemoryBlock> blocks(1000);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = {.size_bytes = (4 + i % 5) * MiB, .zero_bytes = (4 + i % 5) * MiB};
  const std::string text = open_metrics(*telemetry, {}, blocks);
  EXPECT_NE(text.find("\nweightpager_large_blocks_by_size{bytes_min=\"4194304\"} 800\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nweightpager_large_blocks_by_size{bytes_min=\"8388608\"} 200\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nweightpager_large_blocks_held_bytes{holds=\"zeros\"} 6291456000\n"),
            std::string::npos);
}

}  // namespace
}  // namespace weightpager::control
