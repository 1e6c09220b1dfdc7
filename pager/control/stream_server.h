// How a server treats its clients, whether they speak lines (line_server.h) or HTTP
// (http_server.h).
//
// Problem. A client may be slow, silent or hostile. The server lives in an engine's process, and
// must not take much of the engine's memory and time.
//
// Idea. Everything is bounded: the number of clients, the length of a request, the bytes that wait
// to be sent (one answer), and the time that the server waits for a client. The loop's thread runs
// at the lowest priority: on a processor that other threads want, it gets one part in 70.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pager/control/loop.h"

namespace weightpager::control {

struct ClientLimits {
  size_t clients_max = 16;
  /// Includes the end of the request.
  size_t request_bytes_max = 4096;
  uint64_t patience_ms = 10'000;
};

class StreamServer {
 public:
  /// Requires that no other thread runs the loop.
  virtual ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// Called on the loop's thread: nobody is served any more after this.
  void close_all();

 protected:
  /// Each member begins with libuv's common fields.
  union Socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_pipe_t pipe;
    uv_tcp_t tcp;
  };
  struct Client {
    StreamServer* server = nullptr;
    Socket socket{};
    uv_timer_t timer{};
    uv_write_t writing{};
    std::vector<char> request;  // sized for the longest request
    size_t request_bytes = 0;   // so many have come
    std::string answer;         // the answer that is being sent
    bool is_sending = false;
    size_t unsent_bytes = 0;  // at the last look
    int handles_open = 0;

    std::string_view received() const { return {request.data(), request_bytes}; }
    bool is_closing() const { return uv_is_closing(&socket.handle); }
  };

  StreamServer(Loop& loop, const ClientLimits& limits) : limits_(limits), loop_(loop) {}

  /// A handle that the derived class binds. It does not listen yet; this class closes it. `init` is
  /// uv_pipe_init or uv_tcp_init.
  template <typename Init>
  Socket& make_listener(Init init) {
    init(&loop_.loop_, listener_);
    begin();
    return listener_;
  }
  /// Returns 0, or libuv's error number.
  int listen();

  /// A client has connected. The server reads from it unless this call closes it.
  virtual void on_connect(Client& client, bool is_one_too_many) = 0;
  /// More bytes of the client's request have come.
  virtual void on_received(Client& client) = 0;
  /// An answer that did not fit into the socket at once has been sent whole.
  virtual void on_sent(Client& client) = 0;

  /// Returns whether the answer fitted into the socket at once. If not, nothing is read from the
  /// client until on_sent().
  bool send(Client& client, std::string answer);
  void resume_reading(Client& client);
  void stop_reading(Client& client) { uv_read_stop(&client.socket.stream); }
  void close(Client& client);

  const ClientLimits limits_;

 private:
  void begin();
  void let_in();

  Loop& loop_;
  Socket listener_{};
  bool is_listener_open_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace weightpager::control
