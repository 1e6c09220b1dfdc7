// What the engine does that no window comes of: files that are opened and not mapped, programs that
// are started without the interposer, children that compute on their parent's weights. Noted as
// marks (telemetry/marks.h), for the summary to name the cause. Nothing here changes what a call
// does, or errno.
#pragma once

#include <cstddef>
#include <string>

#include "pager/preload/session.h"

namespace weightpager::preload {

/// In the interposer's constructor: it is loaded. Marks go into `run_directory`.
void note_loaded(const std::string& run_directory);

/// A file was opened, with these flags of open(2).
void note_opened(int fd, int flags);

/// The kernel maps what is asked for: noted if that is a model.
void note_plain_mapping(size_t length, int protection, int flags, int fd);

/// What becomes of the calling process when a program is started.
enum class Start { in_its_place, beside_it };
/// Before a program is started. System calls only: between fork and exec nothing else is safe.
/// A path without a slash is looked for in PATH if `is_searched`.
void note_start(Start start, const char* path, bool is_searched, char* const* arguments,
                char* const* environment);

/// The first model is about to be paged.
void note_paging();

/// Before a child process is made.
void note_forking();
/// In every child process. `ranges`: where its parent had regions and it has the plain file.
void note_forked(const Range* ranges, size_t count);

/// The process ends in order.
void note_end();

}  // namespace weightpager::preload
