#include "pager/control/control_socket.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "pager/base/thread.h"
#include "pager/control/runtime_directory.h"

namespace weightpager::control {
Result<std::unique_ptr<ControlSocket>> ControlSocket::open(LineServer::Answer answer) {
  auto directory = runtime_directory();
  if (!directory) return forward_error(std::move(directory));
  auto server =
      LineServer::listen(*directory + "/" + std::to_string(getpid()) + ".sock", std::move(answer));
  if (!server) return forward_error(std::move(server));
  std::unique_ptr<ControlSocket> it(new ControlSocket(std::move(*server)));
  auto thread = start_thread("wp-control", [server = it->server_.get()] {
    take_least_priority();
    server->run();
  });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  return it;
}

ControlSocket::~ControlSocket() {
  if (!thread_.joinable()) return;
  server_->stop();
  thread_.join();
}

}  // namespace weightpager::control
