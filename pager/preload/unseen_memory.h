// Large memory that the engine gets past the interposer. What a program asks the kernel for by
// system calls of its own (Go's runtime, allocators that are written for one engine) is served by
// nobody, and the engine is larger than its window and its blocks tell.
//
// Idea. At the end the kernel's account of the process is compared with what was asked for here and
// what the C library says of its own blocks. What nobody asked for is the rest. It is a lower
// bound: memory that was asked for and given back is counted as asked for.
//
// Cost: one addition for each anonymous mapping, and at the end of a large process one look at its
// mappings.
#pragma once

#include <cstddef>

namespace weightpager::preload {

/// Called when anonymous memory is asked for by the C library's mmap.
void note_anonymous_mapping(size_t length_bytes);

/// At the process's end: leaves a mark if large memory of the process was never asked for here.
void note_unseen_memory();

}  // namespace weightpager::preload
