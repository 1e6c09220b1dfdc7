// Large memory of the engine's that is not served, so that the engine is larger than its window and
// its blocks tell: what it asks mmap for (allocators that are linked into it do), and what it asks
// the kernel for by system calls of its own (Go's runtime).
//
// Idea. At the end the kernel's account of the process is compared with what was asked for here and
// what the C library says of its own blocks. What nobody asked for is the rest. It is a lower
// bound: memory that was asked for and given back, or only reserved, is counted as asked for.
//
// Cost: one addition for each anonymous mapping, and at the end of a large process one look at its
// mappings.
#pragma once

#include <cstddef>

namespace weightpager::preload {

/// Called when anonymous memory is asked for by the C library's mmap.
void note_anonymous_mapping(size_t length_bytes);

/// At the process's end: leaves a mark if large memory of the process came from mmap, and one if it
/// was never asked for here.
void note_unseen_memory();

}  // namespace weightpager::preload
