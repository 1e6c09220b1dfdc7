#include "pager/preload/control.h"

#include <cstdlib>

namespace weightpager::preload {
namespace {

// Never freed: the socket's thread, and the code that removes the socket at exit, need it until the
// end.
control::HostedSocket* socket = nullptr;

/// A port, or -1 for none.
int http_port() {
  const char* const text = std::getenv("WEIGHTPAGER_HTTP");
  return text == nullptr || *text == 0 ? -1 : static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

void open_control_socket(control::HostedSocket::Answer answer) {
  socket = control::HostedSocket::open({.answer = std::move(answer), .http_port = http_port()})
               .release();
}

void remove_control_socket() {
  if (socket != nullptr) socket->remove_path();
}

void before_fork_of_control_socket() {
  if (socket != nullptr) socket->await_opened();
}

void forget_control_socket() { socket = nullptr; }

}  // namespace weightpager::preload
