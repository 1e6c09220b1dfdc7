// Whether the kernel has memory in pieces of just a small chunk's size.
//
// Problem. A chunk of 128 KiB in shared memory is 32 small pages, each of which the kernel gets,
// clears, enters and gives back by itself: 150 µs of processor time from one read into the chunk's
// place to the next.
//
// Idea. Since Linux 6.14 shared memory can lie in folios of other sizes: one piece, got and given
// back at once, 55 µs. A folio that is larger than a chunk would waste memory, and be split when
// the chunk goes. So folios are asked for only where the administrator allows those of a chunk's
// size and none that are larger:
//
//     echo advise > /sys/kernel/mm/transparent_hugepage/hugepages-128kB/shmem_enabled
//
// (Memory that is moved has no use for them: UFFDIO_MOVE splits a folio that is no huge page.)
#pragma once

#include <cstdint>
#include <string>

namespace weightpager::window {

/// What is set in a file of the kernel's that lists all choices: `always [madvise] never` →
/// "madvise". "": there is no such setting.
std::string chosen_word(const std::string& path);

/// Whether shared memory that asks for large pages (MADV_HUGEPAGE) gets folios of `chunk_bytes`,
/// and of no larger size. False for chunks that are huge pages themselves. `settings`: the kernel's
/// folder of settings.
bool gives_folios_of(uint64_t chunk_bytes,
                     const std::string& settings = "/sys/kernel/mm/transparent_hugepage");

}  // namespace weightpager::window
