#include "pager/control/control_socket.h"

#include <string>
#include <utility>

#include "pager/base/thread.h"
#include "pager/control/http_pages.h"
#include "pager/control/page_notice.h"
#include "pager/control/runtime_directory.h"

namespace weightpager::control {

Result<std::unique_ptr<ControlSocket>> ControlSocket::open(const LineServer::Answer& answer,
                                                           std::optional<uint16_t> http_port) {
  auto path = own_socket_path();
  if (!path) return forward_error(std::move(path));
  std::unique_ptr<ControlSocket> it(new ControlSocket);
  auto loop = Loop::open();
  if (!loop) return forward_error(std::move(loop));
  it->loop_ = std::move(*loop);
  auto lines = LineServer::listen(*it->loop_, *path, answer);
  if (!lines) return forward_error(std::move(lines));
  it->lines_ = std::move(*lines);
  if (http_port) {
    auto pages = serve_pages(*it->loop_, *http_port, answer);
    if (pages) it->pages_ = std::move(*pages);
    it->pages_ ? tell_of_page(it->pages_->port()) : tell_of_no_page(pages.error().message);
  }
  auto thread = start_thread("wp-control", [loop = it->loop_.get()] {
    take_least_priority();
    loop->run();
  });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  return it;
}

ControlSocket::~ControlSocket() {
  if (!thread_.joinable()) return;
  loop_->stop();
  thread_.join();
}

}  // namespace weightpager::control
