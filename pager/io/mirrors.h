// Copies of model files on other drives: found by name, checked by size and checksum.
//
// Problem. A copy that differs by one byte would change what an engine computes, and nobody would
// notice.
//
// Idea. A copy is used only if its size and checksum were found to be the model's
// (file_checksum.h), and only while the identities of both files are those that were checked. The
// outcome of the check, CheckedCopy, is a pair of identities. Whoever reads the copy compares them
// after each read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/drive_choice.h"
#include "pager/io/file_identity.h"
#include "pager/io/model_file.h"

namespace weightpager::io {

struct CheckedCopy {
  FileIdentity original;
  FileIdentity identity;  // the copy's
  std::string path;       // of the copy
  uint32_t drive = 1;     // by the order of the directories, from 1 on
};

/// The copy of the file in the directory: by the last four parts of the file's path, or the last
/// three, two, or its name alone. "" if there is none.
std::string find_copy(const std::string& path, const std::string& directory);

/// `on_progress(read, total)`: bytes of files whose checksums are not known from earlier.
using CopyProgress = std::function<void(uint64_t read_bytes, uint64_t total_bytes)>;

/// Finds the copies of the files in the directories, at most mirrors_max of them, and checks them,
/// all drives at the same time. Checksums are kept in `cache_directory` ("": they are not).
/// `on_progress` is called by the caller's thread a few times a second. A directory may have copies
/// of some of the files only. Fails if a directory has none, or a copy is not the same as its file.
Result<std::vector<CheckedCopy>> check_copies(const std::vector<std::string>& paths,
                                              const std::vector<std::string>& directories,
                                              const std::string& cache_directory,
                                              const CopyProgress& on_progress);

/// Those of the file; none if it was changed since.
std::vector<CheckedCopy> copies_of(std::span<const CheckedCopy> copies, const FileIdentity& file);

/// Checked copies as text, for a file that another process reads.
std::string format_copies(std::span<const CheckedCopy> copies);
/// Fails if it is no such text. `name` is for messages.
Result<std::vector<CheckedCopy>> parse_copies(std::string_view text, const std::string& name);

/// What the device under `fd` and those under the copies like together: as many bytes in flight as
/// all of them, in requests of the size that the one with the largest takes.
DeviceLimits device_limits(int fd, std::span<const CheckedCopy> copies);

}  // namespace weightpager::io
