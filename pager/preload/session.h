// The engine's side of the pager: which files are models, which addresses are regions, what happens
// in a child process. One per process, made when the first model is mapped.
//
// Configuration comes in the environment (`weightpager run` sets it): WEIGHTPAGER_WINDOW (bytes) or
// WEIGHTPAGER_ATTACH (a server's socket; with neither the interposer does nothing),
// WEIGHTPAGER_MATCH (globs, ':' between them), WEIGHTPAGER_FILES (models by device and inode),
// WEIGHTPAGER_MAPPER, WEIGHTPAGER_POLICY, WEIGHTPAGER_PROFILE (0: no engine profiles),
// WEIGHTPAGER_RECORD (1: touches are written down), WEIGHTPAGER_ACCESS_PROFILES (where earlier
// runs' are), WEIGHTPAGER_RUN_DIR, WEIGHTPAGER_QUIET.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace weightpager::preload {

/// A part of the address space, as the engine passed it.
struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

/// Whether the environment asks for anything; false makes every interposed call a plain one.
bool is_active();
bool wants_profiles();

/// What the engine profile did, for the summary. Any time, any thread; the first text stays.
void note_profile(const char* text);

/// Maps a model file through the pager; nullptr if the file is no model or this kind of mapping
/// cannot be paged (the reason is then told): the caller maps it as the kernel does. MAP_FAILED,
/// with errno, if there is no window to map it from.
void* map_model(size_t length, int protection, int flags, int fd, off_t offset);

/// Whether a file of this name would be taken for a model. Allocates nothing.
bool is_model_name(const char* path);

/// Whether any model was paged in this process, or in that which it was forked from.
bool has_served();

/// The engine has opened a file by this name; `directory` as of openat(2). Allocates nothing.
void note_opened_by_name(int fd, int directory, const char* path);

/// Whether the descriptor is open on a file that map_model would take.
bool is_model_file(int fd);

/// Whether the pager serves loads and stores only, and no faults inside system calls.
bool kernel_cannot_wait();

/// Whether any part of the range lies in a region. Takes no lock.
bool touches_region(const void* address, size_t length);

/// munmap of a range that touches a region.
int unmap(void* address, size_t length);

/// mprotect of a range that touches a region: no access, or as much as it was mapped with.
int protect(void* address, size_t length, int protection);

/// Hints and questions for a range that touches a region.
void will_need(void* address, size_t length);
void consumed(void* address, size_t length);
/// MADV_DONTNEED: what the engine wrote in the range is given up too.
void discard(void* address, size_t length);
void residency(void* address, size_t length, unsigned char* pages);

}  // namespace weightpager::preload
