#include "pager/control/loop.h"

#include "pager/control/stream_server.h"

namespace weightpager::control {
namespace {

Status succeeded(const char* what, int status) {
  if (status == 0) return {};
  return fail(std::string("libuv: ") + what + ": " + uv_strerror(status), "", -status);
}

template <typename Handle>
void close_handle(Handle& handle) {
  auto* const it = reinterpret_cast<uv_handle_t*>(&handle);
  if (!uv_is_closing(it)) uv_close(it, nullptr);
}

}  // namespace

Result<std::unique_ptr<Loop>> Loop::open() {
  std::unique_ptr<Loop> it(new Loop);
  if (auto opened = succeeded("a loop", uv_loop_init(&it->loop_)); !opened) {
    return forward_error(std::move(opened));
  }
  it->is_open_ = true;
  uv_async_init(&it->loop_, &it->stopping_,
                [](uv_async_t* handle) { static_cast<Loop*>(handle->data)->close_all(); });
  it->stopping_.data = it.get();
  return it;
}

Loop::~Loop() {
  if (!is_open_) return;
  close_all();
  run();
  uv_loop_close(&loop_);
}

Status Loop::stop_when_readable(int fd) {
  const auto on_readable = [](uv_poll_t* handle, int, int) {
    static_cast<Loop*>(handle->data)->close_all();
  };
  if (auto made = succeeded("watching a descriptor", uv_poll_init(&loop_, &watching_, fd)); !made) {
    return made;
  }
  is_watching_ = true;
  watching_.data = this;
  return succeeded("watching a descriptor", uv_poll_start(&watching_, UV_READABLE, on_readable));
}

// The loop ends when its last handle is closed.
void Loop::close_all() {
  for (StreamServer* const server : servers_) server->close_all();
  close_handle(stopping_);
  if (is_watching_) close_handle(watching_);
}

}  // namespace weightpager::control
