// Remembers the files that the engine opened by a name that matches one of the user's globs, and
// those that it opened to write to them.
//
// A descriptor only tells the name of the file behind it. The name of a link is lost (Hugging
// Face's snapshots are links to hashes), and a file that was renamed or removed meanwhile has
// another name or none. So a name is checked when it is opened, and the file is remembered.
// Remembering a file too many is harmless: it would be paged, with its own bytes. Nothing here
// allocates or locks, because open(2) may be called in signal handlers and between fork and exec.
#pragma once

#include <string>
#include <vector>

#include "pager/model/recognise.h"

namespace weightpager::preload {

/// `directory` is that of openat(2). Keeps errno.
void remember_opened(int fd, int directory, const char* path,
                     const std::vector<std::string>& globs);

/// Whether the file is among the 256 that were noted last.
bool was_noted(const model::FileId& file);

/// The process opens the file to write to it, or has done so. Only the last 256 such files are
/// known. Any thread may call these, and they allocate nothing.
void note_to_be_written(const model::FileId& file);
bool may_be_written(const model::FileId& file);

}  // namespace weightpager::preload
