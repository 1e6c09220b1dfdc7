// The control socket of a process that is not ours: an engine, or a program that uses the library.
//
// Its thread has descriptors of its own, like the pager's, so that an engine that closes all
// descriptors does not close these, and a child process does not inherit them. The thread loads its
// library (plugin.h) itself. The thread that maps a model must not load it: that thread holds a
// lock, and another thread, which is loading a library that maps a model, may wait for that lock.
//
// Paging does not need the socket: if it cannot be opened, one line says so and the process runs
// on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "pager/base/owned_fd.h"

namespace weightpager::control {

class HostedSocket {
 public:
  using Answer = std::function<std::string(std::string_view request)>;
  struct Options {
    Answer answer;  // called on the socket's thread
    /// Same as PluginHost::http_port.
    int http_port = -1;
    /// True costs a descriptor in the process's own table; false: the socket lives as long as the
    /// process.
    bool can_be_closed = false;
  };

  /// Begins to open the socket, and returns at once. nullptr: it cannot be opened; a line on stderr
  /// has said why.
  static std::unique_ptr<HostedSocket> open(Options options);
  /// Requires can_be_closed.
  ~HostedSocket();

  /// Waits until the socket has been opened or could not be, for a second at most.
  void await_opened() const;
  /// Called at exit: the path is gone afterwards, and does not come back.
  void remove_path();

 private:
  /// The path comes into being during `opening`, so an exit waits until that state is over.
  enum class State { loading, opening, served, ended };

  HostedSocket(Options options, std::string path)
      : options_(std::move(options)), path_(std::move(path)) {}
  void serve();
  void give_up(const std::string& why);

  const Options options_;
  const std::string path_;
  OwnedFd stop_;
  std::atomic<State> state_{State::loading};
  std::thread thread_;
};

}  // namespace weightpager::control
