#include "pager/control/line_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "pager/control/runtime_directory.h"

namespace weightpager::control {
namespace {

tl::unexpected<Error> cannot_listen(const std::string& path, int status) {
  return fail("control socket " + path + ": listening: " + uv_strerror(status),
              "`weightpager stat` and its like will not find this process", -status);
}

/// An error of the server itself. All its texts are written in this file and need no quoting.
std::string error_line(const std::string& error, const std::string& hint) {
  return "{\"version\":1,\"ok\":false,\"error\":\"" + error + "\",\"hint\":\"" + hint + "\"}\n";
}

bool is_owner_or_root(const uv_handle_t& socket) {
  uv_os_fd_t fd = -1;
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool is_known = uv_fileno(&socket, &fd) == 0 &&
                        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
                        length == sizeof peer;
  return is_known && (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

Result<std::unique_ptr<LineServer>> LineServer::listen(Loop& loop, const std::string& path,
                                                       Answer answer, const ClientLimits& limits) {
  std::unique_ptr<LineServer> it(new LineServer(loop, std::move(answer), limits));
  if (auto opened = it->open(path); !opened) return forward_error(std::move(opened));
  return it;
}

LineServer::~LineServer() {
  if (!path_.empty()) unlink(path_.c_str());
}

Status LineServer::open(const std::string& path) {
  const std::string unheard_path = path + std::string(unheard_ending);
  // libuv would cut the path off.
  if (unheard_path.size() >= sizeof(sockaddr_un::sun_path))
    return cannot_listen(path, UV_ENAMETOOLONG);
  Socket& listener =
      make_listener([](uv_loop_t* loop, Socket& socket) { uv_pipe_init(loop, &socket.pipe, 0); });
  unlink(unheard_path.c_str());
  int status = uv_pipe_bind(&listener.pipe, unheard_path.c_str());
  // Nobody else can enter the directory, but the user may move the socket elsewhere.
  if (status == 0 && chmod(unheard_path.c_str(), 0600) != 0) status = -errno;
  if (status == 0) status = StreamServer::listen();
  // This replaces a socket that a killed process has left, or one that this process had before it
  // executed another program.
  if (status == 0 && rename(unheard_path.c_str(), path.c_str()) != 0) status = -errno;
  if (status == 0) path_ = path;
  if (status != 0) return cannot_listen(path, status);
  return {};
}

void LineServer::on_connect(Client& client, bool is_one_too_many) {
  if (!is_owner_or_root(client.socket.handle)) return close(client);
  if (!is_one_too_many) return;
  refuse(client, std::to_string(limits_.clients_max) + " clients are connected already");
}

// Answers the lines that have come, one after the other, as long as the client takes the answers.
void LineServer::on_received(Client& client) {
  size_t begin = 0;
  while (!client.is_sending && !client.is_closing()) {
    const char* const from = client.request.data() + begin;
    const auto* end =
        static_cast<const char*>(std::memchr(from, '\n', client.request_bytes - begin));
    if (end == nullptr) break;
    const auto length = static_cast<size_t>(end - from);
    begin += length + 1;
    if (!send(client, answer_({from, length}) + "\n")) watch_progress(client);
  }
  client.request_bytes -= begin;
  std::memmove(client.request.data(), client.request.data() + begin, client.request_bytes);
  const bool is_full = client.request_bytes == client.request.size();
  if (is_full && !client.is_sending) {
    refuse(client, "a request is longer than " + std::to_string(client.request.size()) + " bytes");
  }
}

void LineServer::watch_progress(Client& client) {
  if (client.is_closing()) return;
  uv_timer_start(
      &client.timer,
      [](uv_timer_t* timer) {
        Client& it = *static_cast<Client*>(timer->data);
        const size_t unsent_bytes = uv_stream_get_write_queue_size(&it.socket.stream);
        if (unsent_bytes == it.unsent_bytes) return static_cast<LineServer*>(it.server)->close(it);
        it.unsent_bytes = unsent_bytes;
      },
      limits_.patience_ms, limits_.patience_ms);
}

void LineServer::on_sent(Client& client) {
  uv_timer_stop(&client.timer);
  on_received(client);
  if (!client.is_sending && !client.is_closing()) resume_reading(client);
}

// The client gets the error only if it fits into the socket's buffer.
void LineServer::refuse(Client& client, const std::string& why) {
  std::string line = error_line(why, "docs/reference/control.md has the protocol");
  const uv_buf_t buffer = uv_buf_init(line.data(), static_cast<unsigned>(line.size()));
  uv_try_write(&client.socket.stream, &buffer, 1);
  close(client);
}

}  // namespace weightpager::control
