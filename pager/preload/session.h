// The engine's side of the pager: it knows which files are models and which addresses are regions,
// and handles child processes. There is one per process, made when the first model is mapped.
//
// Configuration comes in the environment (`weightpager run` sets it): WEIGHTPAGER_WINDOW (bytes) or
// WEIGHTPAGER_ATTACH (a server's socket; with neither the interposer does nothing),
// WEIGHTPAGER_MATCH (globs, ':' between them), WEIGHTPAGER_FILES (models by device and inode),
// WEIGHTPAGER_MAPPER, WEIGHTPAGER_POLICY, WEIGHTPAGER_PROFILE (0: no engine profiles),
// WEIGHTPAGER_RECORD (1: touches are recorded), WEIGHTPAGER_ACCESS_PROFILES (the directory of
// earlier runs' access profiles), WEIGHTPAGER_RUN_DIR, WEIGHTPAGER_QUIET. WEIGHTPAGER_SPILL (a
// folder: large blocks of memory are spilled), WEIGHTPAGER_SPILL_MIN (bytes of the smallest such
// block) and WEIGHTPAGER_SPILL_FOR are spilled_blocks.h's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace weightpager::preload {

/// A part of the address space, as the engine passed it to a call.
struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

/// Whether the environment asks for a window or a server. If not, every interposed call goes to the
/// kernel unchanged.
bool is_active();
bool wants_profiles();

/// Notes for the summary what the engine profile did. May be called at any time by any thread; the
/// first text stays.
void note_profile(const char* text);

/// Maps a model file through the pager. Returns nullptr if the file is no model, or if this kind of
/// mapping cannot be paged (then the reason is told): the caller then calls the kernel's mmap.
/// Returns MAP_FAILED and sets errno if there is no window.
void* map_model(size_t length, int protection, int flags, int fd, off_t offset);

/// Whether a file of this name would be taken for a model. Allocates nothing.
bool is_model_name(const char* path);

/// Whether any model was paged in this process, or in the process that it was forked from.
bool has_served();

/// Notes that the engine has opened a file by this name; `directory` is that of openat(2).
/// Allocates nothing.
void note_opened_by_name(int fd, int directory, const char* path);

/// Whether the descriptor is open on a file that map_model would take.
bool is_model_file(int fd);

/// Whether the pager serves loads and stores only, and no faults inside system calls.
bool kernel_cannot_wait();

/// Whether any part of the range lies in a region. Takes no lock.
bool touches_region(const void* address, size_t length);

/// munmap of a range that touches a region.
int unmap(void* address, size_t length);

/// mprotect of a range that touches a region: takes all access away, or gives back the access that
/// the region was mapped with.
int protect(void* address, size_t length, int protection);

/// Advice about a range that touches a region.
void will_need(void* address, size_t length);
void consumed(void* address, size_t length);
/// MADV_DONTNEED: also gives up the bytes that the engine wrote in the range.
void discard(void* address, size_t length);
void residency(void* address, size_t length, unsigned char* pages);

}  // namespace weightpager::preload
