// The control socket of a process that belongs to somebody else: an engine, or a program that uses
// the library.
//
// Its thread has descriptors of its own, like the pager's, so that an engine that closes all
// descriptors does not close these, and a child process does not inherit them. It loads its library
// (plugin.h) itself: the thread that maps a model would do so under a lock that another one, which
// is loading a library that maps a model, waits for.
//
// It is no part of paging: where it cannot be had, one line says so and the process runs on.
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
    Answer answer;  // on the thread
    /// As PluginHost::http_port.
    int http_port = -1;
    /// Costs a descriptor in the process's own table; otherwise it lives as long as the process.
    bool can_be_closed = false;
  };

  /// Begins to open it, and returns at once. nullptr: it cannot be had, as a line has said.
  static std::unique_ptr<HostedSocket> open(Options options);
  /// Requires can_be_closed.
  ~HostedSocket();

  /// It has been opened, or could not be; a second at most.
  void await_opened() const;
  /// At exit: its path is gone then, and does not come back.
  void remove_path();

 private:
  /// The path comes into being while it opens, which is why an exit waits for the end of that.
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
