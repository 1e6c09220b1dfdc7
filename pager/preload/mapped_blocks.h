// Large blocks that the engine maps itself: anonymous private memory, of mmap. Allocators of one
// program (arenas), languages with an allocator of their own, and engines that map their buffers
// ask for memory in this way. The pager serves it as it serves the blocks of malloc
// (spilled_blocks.h).
//
// Problem. A block of malloc is given back as a whole, and nothing else happens to it. A mapping
// may be unmapped, protected, moved and replaced page by page, while the pager moves whole chunks.
//
// Idea. Each mapping begins with a chunk of its own. Chunks that no mapping has a part of are zeros
// and inaccessible, and wait for the next mapping. Of a chunk that still has mapped pages, those
// that are unmapped become zeros; they stay accessible. What is protected in whole chunks stays
// served. All that is finer than that, or rarer (execution, a fixed mapping over a block, mremap to
// a fixed place), withdraws the chunks: they become the kernel's memory with the same bytes, beyond
// the window, and the kernel does the rest.
//
// What is longer than the machine's memory is a reservation, and is the kernel's. The first
// mappings, and those that do not live long, are the kernel's, too. So are all mappings of a
// process where another allocator than the C library's answers malloc: the pager's own objects
// would lie in what it maps, and the pager would wait for itself.
//
// Cost: one comparison for a call that has nothing to do with these; some 20 µs for one that has.
#pragma once

#include <cstddef>

#include "pager/preload/spilled_blocks.h"

namespace weightpager::preload {

/// Called once, by begin_spilling().
void begin_mapping();

/// Whether mmap with these arguments may be answered by a large block. Cheap.
bool asks_for_large_mapping(size_t length, int protection, int flags);
/// Returns nullptr if the kernel has to map it. `address` is a hint.
void* map_large(void* address, size_t length, int flags);
/// The kernel's mapping, if it is one of those that map_large() has left to the kernel, is
/// unmapped.
void note_unmapped(void* address, size_t length);

/// Whether any part of the range lies among served mappings. Cheap, and takes no lock.
bool touches_mapped(const void* address, size_t length);

// For ranges that touch them; other parts of the range go on to session.h or to the kernel. Each
// returns the same as the system call of its name.

int unmap_mapped(void* address, size_t length);
int protect_mapped(void* address, size_t length, int protection);
int advise_mapped(void* address, size_t length, int advice);
/// `target` counts with MREMAP_FIXED. Only the old place has to touch them.
void* move_mapped(void* address, size_t old_length, size_t new_length, int flags, void* target);
/// 0 if all of it is mapped: for calls that need not do anything else.
int check_mapped(const void* address, size_t length);
/// The range is about to be mapped anew by the kernel, which may fail if `keeps_bytes`. Returns
/// false, with errno, if it cannot be.
bool make_way(void* address, size_t length, bool keeps_bytes);

}  // namespace weightpager::preload
