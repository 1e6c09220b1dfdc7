// A file descriptor that is closed when its owner is destroyed.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

namespace weightpager {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  /// From now on the caller has to close the descriptor.
  int release() { return std::exchange(fd_, -1); }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A path by which other threads and child processes can open the calling thread's descriptor. A
/// thread may have a descriptor table of its own, and the file's name may mean another file by now.
/// The thread's number is read from /proc itself, because /proc may belong to another process
/// namespace, in which our numbers mean other processes. Whoever opens the link must still compare
/// the file, because /proc may have been mounted anew. "" if there is no /proc.
inline std::string link_of_descriptor(int fd) {
  char thread[64];
  const ssize_t length = readlink("/proc/thread-self", thread, sizeof thread);
  if (length <= 0) return "";
  return "/proc/" + std::string(thread, static_cast<size_t>(length)) + "/fd/" + std::to_string(fd);
}

}  // namespace weightpager
