// One open model file: direct reads if the filesystem has them, and the best sizes for its device.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/result.h"
#include "pager/io/file_identity.h"

namespace weightpager::io {

/// Owns the descriptor. Movable, not copyable.
class ModelFile {
 public:
  /// Opens `path` (also a /proc/…/fd/N link) read-only, with O_DIRECT where the filesystem takes it
  /// and a probe read succeeds; otherwise without, see is_direct().
  static Result<ModelFile> open(const std::string& path);
  /// The same, but refuses any file except `expected`: a link or a name may lead to another file by
  /// now, or in this process. `name` is for the message.
  static Result<ModelFile> open(const std::string& path, const FileIdentity& expected,
                                const std::string& name);

  /// No file, with fd() -1: for memory that no file is behind.
  static ModelFile none() { return {}; }

  ModelFile(ModelFile&& other) noexcept;
  ModelFile& operator=(ModelFile&& other) noexcept;
  ~ModelFile();

  int fd() const { return fd_; }
  /// The file's identity when it was opened.
  const FileIdentity& identity() const { return identity_; }
  uint64_t size_bytes() const { return identity_.size_bytes; }
  /// False: reads go through the page cache (tmpfs, some network filesystems).
  bool is_direct() const { return is_direct_; }
  /// Offset, length and buffer alignment that direct reads need (statx STATX_DIOALIGN, else the
  /// filesystem's block size); 1 if not direct.
  uint32_t alignment_bytes() const { return alignment_bytes_; }

 private:
  ModelFile() = default;
  int fd_ = -1;
  FileIdentity identity_;
  bool is_direct_ = false;
  uint32_t alignment_bytes_ = 1;
};

/// The bytes that device_limits() keeps in flight, unless the device takes less.
inline constexpr uint64_t bytes_in_flight = 32u << 20;

struct DeviceLimits {
  /// Bytes in one request to the device.
  uint32_t read_bytes = 1u << 20;
  /// Requests in flight that keep the device busy.
  uint32_t queue_depth = 16;
  /// The kernel's readahead for this device (what plain mmap gets), for reports; 0 if unknown.
  uint32_t readahead_bytes = 0;
  /// The file lies in memory (tmpfs), and a read is a copy that a processor makes.
  bool reads_are_copies = false;
};

/// The size and number of requests to keep in flight, from the sysfs queue limits of the block
/// device under `fd`. Never fails: unknown devices (overlay, network) and memory get the defaults.
DeviceLimits device_limits(int fd);

}  // namespace weightpager::io
