// See ending_signals.h.
#include "tools/terminal/ending_signals.h"

#include <fmt/format.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace weightpager::tools {

Result<OwnedFd> ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  OwnedFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd.is_open()) return fd;
  return fail(fmt::format("waiting for signals: {}", std::strerror(errno)), "raise `ulimit -n`",
              errno);
}

}  // namespace weightpager::tools
