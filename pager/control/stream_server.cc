#include "pager/control/stream_server.h"

#include <algorithm>

namespace weightpager::control {
namespace {

constexpr int backlog = 16;

}  // namespace

StreamServer::~StreamServer() {
  close_all();
  // libuv must end what it has begun before the object can be destroyed.
  while (is_listener_open_ || !clients_.empty()) uv_run(&loop_.loop_, UV_RUN_NOWAIT);
  std::erase(loop_.servers_, this);
}

void StreamServer::begin() {
  listener_.handle.data = this;
  is_listener_open_ = true;
  loop_.servers_.push_back(this);
}

int StreamServer::listen() {
  return uv_listen(&listener_.stream, backlog, [](uv_stream_t* it, int failed) {
    if (failed == 0) static_cast<StreamServer*>(it->data)->let_in();
  });
}

void StreamServer::let_in() {
  auto made = std::make_unique<Client>();
  Client& client = *made;
  client.server = this;
  client.request.resize(limits_.request_bytes_max);
  if (listener_.handle.type == UV_NAMED_PIPE) {
    uv_pipe_init(&loop_.loop_, &client.socket.pipe, 0);
  } else {
    uv_tcp_init(&loop_.loop_, &client.socket.tcp);
  }
  uv_timer_init(&loop_.loop_, &client.timer);
  client.handles_open = 2;
  client.socket.handle.data = client.timer.data = client.writing.data = &client;
  const bool is_accepted = uv_accept(&listener_.stream, &client.socket.stream) == 0;
  const bool is_one_too_many = clients_.size() >= limits_.clients_max;
  clients_.push_back(std::move(made));
  if (!is_accepted) return close(client);
  on_connect(client, is_one_too_many);
  if (!client.is_closing()) resume_reading(client);
}

void StreamServer::resume_reading(Client& client) {
  uv_read_start(
      &client.socket.stream,
      [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
        Client& it = *static_cast<Client*>(handle->data);
        *buffer = uv_buf_init(it.request.data() + it.request_bytes,
                              static_cast<unsigned>(it.request.size() - it.request_bytes));
      },
      [](uv_stream_t* stream, ssize_t length_bytes, const uv_buf_t*) {
        Client& it = *static_cast<Client*>(stream->data);
        if (length_bytes < 0) return it.server->close(it);
        it.request_bytes += static_cast<size_t>(length_bytes);
        it.server->on_received(it);
      });
}

bool StreamServer::send(Client& client, std::string answer) {
  client.answer = std::move(answer);
  uv_buf_t rest = uv_buf_init(client.answer.data(), static_cast<unsigned>(client.answer.size()));
  const int sent = uv_try_write(&client.socket.stream, &rest, 1);
  if (sent < 0 && sent != UV_EAGAIN) {
    close(client);
    return false;
  }
  if (sent > 0) {
    rest.base += sent;
    rest.len -= static_cast<size_t>(sent);
  }
  if (rest.len == 0) return true;
  client.is_sending = true;
  client.unsent_bytes = rest.len;
  stop_reading(client);
  const auto on_written = [](uv_write_t* writing, int status) {
    Client& it = *static_cast<Client*>(writing->data);
    it.is_sending = false;
    if (status < 0) return it.server->close(it);
    it.server->on_sent(it);
  };
  const int status = uv_write(&client.writing, &client.socket.stream, &rest, 1, on_written);
  if (status != 0) close(client);
  return false;
}

void StreamServer::close(Client& client) {
  if (client.is_closing()) return;
  const auto on_closed = [](uv_handle_t* handle) {
    Client* const it = static_cast<Client*>(handle->data);
    if (--it->handles_open > 0) return;
    std::erase_if(it->server->clients_, [it](const auto& one) { return one.get() == it; });
  };
  uv_close(&client.socket.handle, on_closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&client.timer), on_closed);
}

// libuv removes a socket's file with its listener.
void StreamServer::close_all() {
  for (const auto& client : clients_) close(*client);
  if (!is_listener_open_ || uv_is_closing(&listener_.handle)) return;
  uv_close(&listener_.handle, [](uv_handle_t* handle) {
    static_cast<StreamServer*>(handle->data)->is_listener_open_ = false;
  });
}

}  // namespace weightpager::control
