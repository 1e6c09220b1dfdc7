// The checksum of a whole file's content, kept for later runs.
//
// Problem. Whether two files have the same bytes is known when all of them were read, and models
// are too large to be read at every start.
//
// Idea. The checksum (XXH3, 128 bits: proof against accidents, not against forgers) is kept in the
// user's cache directory with the file's identity. As long as the identity holds, so does the
// checksum. Where times come in ticks, the identity is taken after the tick of the last change, and
// looked at once more when everything was read.
//
// Cost: the first time a read of the file at its drive's speed, past the page cache; later a small
// file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pager/base/result.h"
#include "pager/io/file_identity.h"

namespace weightpager::io {

struct FileChecksum {
  FileIdentity identity;  // settled
  uint64_t low = 0;
  uint64_t high = 0;

  bool is_of_same_content(const FileChecksum& other) const {
    return identity.size_bytes == other.identity.size_bytes && low == other.low &&
           high == other.high;
  }
};

/// The file's checksum: the kept one if there is one in `cache_directory` ("": none is kept), else
/// by reading; then `on_read(bytes)` is called now and then for bytes that were read. Fails if the
/// file cannot be read or is changed meanwhile. A checksum that cannot be kept is a notice. Any
/// thread may call it.
Result<FileChecksum> checksum_of(const std::string& path, const std::string& cache_directory,
                                 const std::function<void(uint64_t)>& on_read);

}  // namespace weightpager::io
