// Large memory of the engine's that is not served, so that the engine is larger than its window and
// its blocks tell: what it asks mmap for (allocators that are linked into it do), and what it asks
// the kernel for by system calls of its own (Go's runtime).
//
// Idea. At the end the kernel's account of the process is compared with what was asked for here and
// what the C library says of its own blocks. Memory that was asked for and given back, or only
// reserved, is counted as asked for: so what nobody asked for is at least what is told, and what
// came from mmap at most.
//
// Cost: one addition for each anonymous mapping, and at the end of a large process one look at its
// mappings.
#pragma once

#include <cstddef>

namespace weightpager::preload {

/// Called when anonymous memory is asked for by the C library's mmap. `is_own_memory`: it is
/// private and writable.
void note_anonymous_mapping(size_t length_bytes, bool is_own_memory);

/// At the process's end: leaves a mark if large memory of the process came from mmap, and one if it
/// was never asked for here.
void note_unseen_memory();

}  // namespace weightpager::preload
