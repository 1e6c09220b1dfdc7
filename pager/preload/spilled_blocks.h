// The engine's large blocks in memory that the pager serves ("spilled"), so that the pager can take
// them out of memory and bring them back. Those that do not live long (short_lived_blocks.h) lie in
// plain memory beside it, and come back to the same addresses.
//
// Nothing is spilled as long as a process's large blocks are small together: a sixteenth of the
// window, but 10 MiB at least and 64 MiB at most. So a process that holds no weights starts no
// pager.
//
// Active only if the environment asks for it: WEIGHTPAGER_SPILL (a folder, which the pager writes
// to), WEIGHTPAGER_SPILL_MIN (bytes; smaller requests go to libc) and WEIGHTPAGER_SPILL_FOR. If
// that is "readers", only engines that read their models are served: blocks are spilled from the
// moment on at which the process opens a model, until it maps one without having read any. As long
// as it has read none, no more than half of the window is spilled, or one block.
//
// All functions are thread-safe, and cheap for addresses and sizes that are none of these blocks'.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pager/base/plain_memory.h"
#include "pager/base/span.h"

namespace weightpager::preload {

/// Requests of fewer bytes are libc's. As long as nothing is spilled, all are.
extern std::atomic<size_t> spilled_bytes_min __attribute__((visibility("hidden")));
/// All large blocks lie in between.
extern std::atomic<uintptr_t> spilled_begin __attribute__((visibility("hidden")));
extern std::atomic<uintptr_t> spilled_end __attribute__((visibility("hidden")));
inline bool may_be_large(const void* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  return number >= spilled_begin.load(std::memory_order_relaxed) &&
         number < spilled_end.load(std::memory_order_relaxed);
}

/// Whether a request of this thread's is for a large block.
inline bool asks_for_large(size_t bytes) {
  return bytes >= spilled_bytes_min.load(std::memory_order_relaxed) && !takes_plain_memory;
}

/// Called once, when the session begins.
void begin_spilling();
/// The process has opened a model, and may be about to read it.
void begin_spilling_for_reader();
/// Where only readers are served: no further block is spilled. Returns whether there are no spilled
/// blocks then, and none will be.
bool end_spilling_for_readers();
/// Whether only readers are served.
bool is_spilling_for_readers();
/// Whether any block was ever given out: libc knows none of them.
bool has_given_blocks();

/// A block that begins at a page. Returns nullptr if there is no room in addresses (which is told
/// once). The block is zero if it must be; otherwise it has any bytes.
void* take_large(size_t bytes, size_t alignment, bool must_be_zero);
/// Returns false if no large block begins there.
bool give_large(void* block);
/// What a large block has room for, and what was asked for; 0 if no large block begins there.
size_t large_room_bytes(const void* block);
size_t large_asked_bytes(const void* block);
/// Makes a large block shorter or longer where it is. Returns false if that cannot be.
bool resize_large(void* block, size_t bytes);
/// Whether any block has a part of the chunk of spilled memory that begins there. Takes no lock,
/// and is for the pager's thread.
bool is_any_block_in(const void* chunk);
/// The blocks that begin in an arena, by their bytes from its first one on. Takes no lock.
size_t list_blocks(const Span& arena, std::span<Span> blocks);
/// Whether one spilled block has the whole range, and the pager serves it in this process.
bool is_in_spilled_block(const void* begin, size_t length_bytes);

}  // namespace weightpager::preload
