// Spilled memory, as the pager offers it: address ranges whose chunks the pager takes out of memory
// and brings back.
//
// What is written in a chunk is kept, in a spill file if there is no room. What was never written
// is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pager/base/result.h"
#include "pager/base/span.h"
#include "pager/base/units.h"

namespace weightpager::preload {

/// Ranges begin and end at multiples of it.
inline constexpr uint64_t spilled_chunk_bytes = 2 * MiB;

/// The whole chunks in a range; empty if there is none.
inline Span whole_chunks(const Span& range) {
  const uintptr_t begin = round_up(range.begin, spilled_chunk_bytes);
  return {begin, std::max(begin, round_down(range.end, spilled_chunk_bytes))};
}

/// A new range of this length, a multiple of the chunk's. Returns nullptr if there can be none.
std::byte* add_spilled_memory(uint64_t length_bytes);

/// So many blocks more lie in such memory, of so many bytes more.
void count_blocks(int64_t blocks, int64_t length_bytes);

/// Whole chunks become zeros, and take no memory until they are touched again.
void forget_spilled_memory(std::byte* begin, uint64_t length_bytes);

/// Whole chunks get the bytes of a file from an offset on, when they are touched or before. The
/// descriptor may be closed, and the file's name removed, as soon as the function has returned. If
/// it fails, the chunks have any bytes.
Status note_lazy_read(int fd, uint64_t file_offset_bytes, std::byte* to, uint64_t length_bytes);

/// Whether any chunk ever got bytes so.
bool has_any_lazily_read();

/// The engine is about to open the file to write, or to cut it: what was read lazily of it is read
/// now, and kept in the spill folder.
void keep_lazily_read(int folder, const char* path);
/// A child process is about to be made: the same of all bytes that the child could not map.
void keep_lazily_read_for_child();

}  // namespace weightpager::preload
