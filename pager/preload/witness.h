// Notes the acts of the engine that leave weights outside of the window: files that are opened and
// not mapped, programs that are started without the interposer, children that compute on their
// parent's weights. The notes are marks (telemetry/marks.h), from which the summary names the
// cause. Nothing here changes the effect of a call, or errno.
#pragma once

#include <cstddef>
#include <string>

#include "pager/preload/session.h"

namespace weightpager::preload {

/// Called in the interposer's constructor: the interposer is loaded. Marks go into `run_directory`.
void note_loaded(const std::string& run_directory);

/// A file was opened, with these flags of open(2).
void note_opened(int fd, int flags);

/// The kernel maps the file: noted if the file is a model.
void note_plain_mapping(size_t length, int protection, int flags, int fd);

/// Whether a program replaces the calling process, or runs beside it.
enum class Start { in_its_place, beside_it };
/// Called before a program is started. Makes system calls only: between fork and exec nothing else
/// is safe. A path without a slash is looked up in PATH if `is_searched`.
void note_start(Start start, const char* path, bool is_searched, char* const* arguments,
                char* const* environment);

/// The first model is about to be paged.
void note_paging();

/// Called before a child process is made.
void note_forking();
/// Called in every child process. `ranges`: where the parent has regions and the child has the
/// plain file.
void note_forked(const Range* ranges, size_t count);

/// The process ends normally.
void note_end();

}  // namespace weightpager::preload
