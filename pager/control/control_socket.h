// The control socket of a program of our own: a thread that serves it.
#pragma once

#include <memory>
#include <thread>

#include "pager/base/result.h"
#include "pager/control/line_server.h"

namespace weightpager::control {

class ControlSocket {
 public:
  /// In this user's runtime directory, under this process's id. `answer` is called on the thread.
  static Result<std::unique_ptr<ControlSocket>> open(LineServer::Answer answer);
  /// `answer` is not called any more.
  ~ControlSocket();

 private:
  explicit ControlSocket(std::unique_ptr<LineServer> server) : server_(std::move(server)) {}

  std::unique_ptr<LineServer> server_;
  std::thread thread_;
};

}  // namespace weightpager::control
