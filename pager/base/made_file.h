// A file whose size is known beforehand. It is written in pieces under a temporary name, and
// renamed when it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager {

/// Removes the temporary file unless it was committed. Writing is thread-safe.
class MadeFile {
 public:
  /// Reserves the space on the disk, so that a full disk shows here. The error names the file and
  /// the bytes needed.
  static Result<MadeFile> create(const std::string& path, uint64_t size_bytes);

  MadeFile(MadeFile&&) noexcept = default;
  MadeFile& operator=(MadeFile&&) = delete;
  ~MadeFile();

  Status write(uint64_t offset_bytes, std::string_view bytes);
  /// Writes the bytes to the disk and gives the file its final name.
  Status commit();

 private:
  MadeFile() = default;
  std::string temporary_path() const { return path_ + ".partial"; }

  std::string path_;
  uint64_t size_bytes_ = 0;
  OwnedFd fd_;
};

}  // namespace weightpager
