#include "pager/control/line_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weightpager::control {
namespace {

constexpr int backlog = 16;

tl::unexpected<Error> cannot(const char* what, const std::string& path, int status) {
  return fail(std::string("control socket ") + path + ": " + what + ": " + uv_strerror(status),
              "`weightpager stat` and its like will not find this process", -status);
}

/// What this file itself has to say; the words are its own, and need no quoting.
std::string error_line(const std::string& error, const std::string& hint) {
  return "{\"version\":1,\"ok\":false,\"error\":\"" + error + "\",\"hint\":\"" + hint + "\"}\n";
}

bool is_owner_or_root(const uv_pipe_t& pipe) {
  uv_os_fd_t fd = -1;
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool is_known = uv_fileno(reinterpret_cast<const uv_handle_t*>(&pipe), &fd) == 0 &&
                        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
                        length == sizeof peer;
  return is_known && (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

struct LineServer::Client {
  LineServer* server = nullptr;
  uv_pipe_t pipe{};
  uv_timer_t unread{};
  uv_write_t writing{};
  std::vector<char> request;  // as long as a request may be
  size_t request_bytes = 0;   // of these are here
  std::string answer;         // what is being sent
  bool is_writing = false;
  size_t unsent_bytes = 0;  // when was last looked
  int handles_open = 0;

  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&pipe); }
};

LineServer::LineServer(Answer answer, const LineServerOptions& options)
    : answer_(std::move(answer)), options_(options) {}

Result<std::unique_ptr<LineServer>> LineServer::listen(const std::string& path, Answer answer,
                                                       const LineServerOptions& options) {
  std::unique_ptr<LineServer> it(new LineServer(std::move(answer), options));
  if (auto opened = it->open(path); !opened) return forward_error(std::move(opened));
  return it;
}

Status LineServer::open(const std::string& path) {
  // libuv would cut it off.
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return cannot("listening", path, UV_ENAMETOOLONG);
  }
  int status = uv_loop_init(&loop_);
  if (status != 0) return cannot("a loop", path, status);
  status = uv_async_init(&loop_, &stopping_,
                         [](uv_async_t* it) { static_cast<LineServer*>(it->data)->close_all(); });
  if (status != 0) {
    uv_loop_close(&loop_);
    return cannot("a loop", path, status);
  }
  uv_pipe_init(&loop_, &listener_, 0);
  listener_.data = stopping_.data = this;
  is_open_ = true;
  // Of a process that was killed, or that this one was before it started another program.
  unlink(path.c_str());
  status = uv_pipe_bind(&listener_, path.c_str());
  // Nobody else can enter the directory; this is for those who move it.
  if (status == 0 && chmod(path.c_str(), 0600) != 0) status = -errno;
  if (status == 0) {
    status = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), backlog,
                       [](uv_stream_t* it, int failed) {
                         if (failed == 0) static_cast<LineServer*>(it->data)->let_in();
                       });
  }
  if (status != 0) return cannot("listening", path, status);
  return {};
}

LineServer::~LineServer() {
  if (!is_open_) return;
  if (!has_run_) {
    close_all();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  uv_loop_close(&loop_);
}

void LineServer::run() {
  has_run_ = true;
  uv_run(&loop_, UV_RUN_DEFAULT);
}

void LineServer::stop() { uv_async_send(&stopping_); }

void LineServer::let_in() {
  auto made = std::make_unique<Client>();
  Client& client = *made;
  client.server = this;
  client.request.resize(options_.request_bytes_max);
  uv_pipe_init(&loop_, &client.pipe, 0);
  uv_timer_init(&loop_, &client.unread);
  client.handles_open = 2;
  client.pipe.data = client.unread.data = client.writing.data = &client;
  const bool is_accepted =
      uv_accept(reinterpret_cast<uv_stream_t*>(&listener_), client.stream()) == 0;
  const bool is_one_too_many = clients_.size() >= options_.clients_max;
  clients_.push_back(std::move(made));
  if (!is_accepted) return close(client);
  if (!is_owner_or_root(client.pipe)) return close(client);
  if (is_one_too_many) {
    return refuse(client, std::to_string(options_.clients_max) + " clients are connected already");
  }
  uv_read_start(
      client.stream(),
      [](uv_handle_t* handle, size_t, uv_buf_t* buffer) {
        Client& it = *static_cast<Client*>(handle->data);
        *buffer = uv_buf_init(it.request.data() + it.request_bytes,
                              static_cast<unsigned>(it.request.size() - it.request_bytes));
      },
      [](uv_stream_t* stream, ssize_t length_bytes, const uv_buf_t*) {
        Client& it = *static_cast<Client*>(stream->data);
        it.server->take(it, length_bytes);
      });
}

void LineServer::take(Client& client, ssize_t length_bytes) {
  if (length_bytes < 0) return close(client);
  client.request_bytes += static_cast<size_t>(length_bytes);
  take_lines(client);
}

// Answers what is there, one line after the other, as long as the client takes the answers.
void LineServer::take_lines(Client& client) {
  size_t begin = 0;
  while (!client.is_writing && !uv_is_closing(reinterpret_cast<uv_handle_t*>(&client.pipe))) {
    const char* const from = client.request.data() + begin;
    const auto* end =
        static_cast<const char*>(std::memchr(from, '\n', client.request_bytes - begin));
    if (end == nullptr) break;
    const auto length = static_cast<size_t>(end - from);
    begin += length + 1;
    send(client, answer_({from, length}));
  }
  client.request_bytes -= begin;
  std::memmove(client.request.data(), client.request.data() + begin, client.request_bytes);
  const bool is_full = client.request_bytes == client.request.size();
  if (is_full && !client.is_writing) {
    refuse(client, "a request is longer than " + std::to_string(client.request.size()) + " bytes");
  }
}

void LineServer::send(Client& client, std::string answer) {
  client.answer = std::move(answer);
  client.answer += '\n';
  uv_buf_t rest = uv_buf_init(client.answer.data(), static_cast<unsigned>(client.answer.size()));
  const int sent = uv_try_write(client.stream(), &rest, 1);
  if (sent < 0 && sent != UV_EAGAIN) return close(client);
  if (sent > 0) {
    rest.base += sent;
    rest.len -= static_cast<size_t>(sent);
  }
  if (rest.len == 0) return;
  client.is_writing = true;
  uv_read_stop(client.stream());
  client.unsent_bytes = rest.len;
  uv_timer_start(
      &client.unread,
      [](uv_timer_t* timer) {
        Client& it = *static_cast<Client*>(timer->data);
        const size_t unsent_bytes = uv_stream_get_write_queue_size(it.stream());
        if (unsent_bytes == it.unsent_bytes) return it.server->close(it);
        it.unsent_bytes = unsent_bytes;
      },
      options_.unread_ms_max, options_.unread_ms_max);
  const auto on_written = [](uv_write_t* writing, int status) {
    Client& it = *static_cast<Client*>(writing->data);
    it.is_writing = false;
    if (status < 0) return it.server->close(it);
    uv_timer_stop(&it.unread);
    it.server->take_lines(it);
    if (it.is_writing || uv_is_closing(reinterpret_cast<uv_handle_t*>(&it.pipe))) return;
    uv_read_start(it.stream(), it.pipe.alloc_cb, it.pipe.read_cb);
  };
  if (uv_write(&client.writing, client.stream(), &rest, 1, on_written) != 0) close(client);
}

// If the client takes it: it has no more than its socket holds.
void LineServer::refuse(Client& client, const std::string& why) {
  std::string line = error_line(why, "docs/control.md has the protocol");
  const uv_buf_t buffer = uv_buf_init(line.data(), static_cast<unsigned>(line.size()));
  uv_try_write(client.stream(), &buffer, 1);
  close(client);
}

void LineServer::close(Client& client) {
  if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&client.pipe))) return;
  const auto on_closed = [](uv_handle_t* handle) {
    Client* const it = static_cast<Client*>(handle->data);
    if (--it->handles_open > 0) return;
    std::erase_if(it->server->clients_, [it](const auto& one) { return one.get() == it; });
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&client.pipe), on_closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&client.unread), on_closed);
}

// The loop ends with its last handle. libuv removes the socket with its listener.
void LineServer::close_all() {
  for (const auto& client : clients_) close(*client);
  for (auto* const handle :
       {reinterpret_cast<uv_handle_t*>(&listener_), reinterpret_cast<uv_handle_t*>(&stopping_)}) {
    if (!uv_is_closing(handle)) uv_close(handle, nullptr);
  }
}

}  // namespace weightpager::control
