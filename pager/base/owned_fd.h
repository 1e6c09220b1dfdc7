// A file descriptor that is closed when its owner goes.
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
  /// The descriptor is the caller's to close from now on.
  int release() { return std::exchange(fd_, -1); }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A name for what the calling thread has open, for other threads and for child processes:
/// descriptor tables can be a thread's own, and the file's name may mean another one by now. /proc
/// itself says how the thread is numbered there, for it may be another process namespace's, in
/// which these numbers are other processes'. What is opened by the link is to be compared with the
/// file all the same (/proc may be mounted anew). "" where there is no /proc.
inline std::string link_of_descriptor(int fd) {
  char thread[64];
  const ssize_t length = readlink("/proc/thread-self", thread, sizeof thread);
  if (length <= 0) return "";
  return "/proc/" + std::string(thread, static_cast<size_t>(length)) + "/fd/" + std::to_string(fd);
}

}  // namespace weightpager
