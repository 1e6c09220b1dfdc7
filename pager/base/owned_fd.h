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

/// A name for what a thread of this process has open. Descriptor tables can be a thread's own, and
/// others open the same file through this link even when its name means another one by now.
inline std::string link_of_descriptor(int thread_id, int fd) {
  return "/proc/" + std::to_string(getpid()) + "/task/" + std::to_string(thread_id) + "/fd/" +
         std::to_string(fd);
}

}  // namespace weightpager
