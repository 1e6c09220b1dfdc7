// Calls that the interposer makes inside an engine's call must not change the engine's errno.
#pragma once

#include <cerrno>

namespace weightpager::preload {

/// At its end errno is what it was at its beginning.
class ErrorKept {
 public:
  ErrorKept() = default;
  ~ErrorKept() { errno = error_; }
  ErrorKept(const ErrorKept&) = delete;
  ErrorKept& operator=(const ErrorKept&) = delete;

 private:
  const int error_ = errno;
};

}  // namespace weightpager::preload
