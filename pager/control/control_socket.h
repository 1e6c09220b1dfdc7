// The control socket of a program of our own: a thread that serves it, and HTTP if that is wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "pager/base/result.h"
#include "pager/control/http_server.h"
#include "pager/control/line_server.h"
#include "pager/control/loop.h"

namespace weightpager::control {

class ControlSocket {
 public:
  /// Opens it in this user's runtime directory, under this process's id. `answer` is called on the
  /// thread. With a port (0: any) HTTP is served, too; one line on stderr says where, or why not.
  static Result<std::unique_ptr<ControlSocket>> open(const LineServer::Answer& answer,
                                                     std::optional<uint16_t> http_port = {});
  /// `answer` is not called any more after this.
  ~ControlSocket();

 private:
  ControlSocket() = default;

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<LineServer> lines_;
  std::unique_ptr<HttpServer> pages_;
  std::thread thread_;
};

}  // namespace weightpager::control
