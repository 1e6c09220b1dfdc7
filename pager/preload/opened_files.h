// Which files the engine opened by a name that one of the user's globs means.
//
// A descriptor only tells the name of the file behind it: that of a link is gone (Hugging Face's
// snapshots are links to hashes), and a file that was renamed or removed meanwhile has another one
// or none. So names are looked at when they are opened, and the file is remembered. A file too many
// in memory is harmless: it would be paged, with its own bytes. Nothing here allocates or locks:
// open(2) may be called in signal handlers and between fork and exec.
#pragma once

#include <string>
#include <vector>

#include "pager/model/recognise.h"

namespace weightpager::preload {

/// `directory`: as of openat(2). Keeps errno.
void remember_opened(int fd, int directory, const char* path,
                     const std::vector<std::string>& globs);

/// Whether it is among those last noted, of which there are 256.
bool was_noted(const model::FileId& file);

}  // namespace weightpager::preload
