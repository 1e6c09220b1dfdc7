// What a server does about its clients, whatever they say: lines (line_server.h) or HTTP
// (http_server.h).
//
// Problem. Whoever connects may be slow, silent or hostile, and what is served lives in an engine's
// process, whose memory and time are not to be had for the asking.
//
// Idea. Everything is bounded: the number of clients, the length of a request, what waits to be
// sent, which is one answer, and the time that a client is waited for. The loop's thread runs at
// the least priority: with a processor that others want it gets one part in 70.
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
  /// The end of the request included.
  size_t request_bytes_max = 4096;
  uint64_t patience_ms = 10'000;
};

class StreamServer {
 public:
  /// Requires that the loop is not run by another thread.
  virtual ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  /// On the loop's thread: nobody is served any more.
  void close_all();

 protected:
  /// Begins with libuv's common fields, whichever it is.
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
    std::vector<char> request;  // as long as a request may be
    size_t request_bytes = 0;   // of these are here
    std::string answer;         // what is being sent
    bool is_sending = false;
    size_t unsent_bytes = 0;  // when was last looked
    int handles_open = 0;

    std::string_view received() const { return {request.data(), request_bytes}; }
    bool is_closing() const { return uv_is_closing(&socket.handle); }
  };

  StreamServer(Loop& loop, const ClientLimits& limits) : limits_(limits), loop_(loop) {}

  /// For who binds it: not yet listening, and closed by this class. `init` is uv_pipe_init or …
  template <typename Init>
  Socket& make_listener(Init init) {
    init(&loop_.loop_, listener_);
    begin();
    return listener_;
  }
  /// 0, or why not, as libuv has it.
  int listen();

  /// Who has connected and is not closed by this will be read from.
  virtual void on_connect(Client& client, bool is_one_too_many) = 0;
  /// More of what the client says is here.
  virtual void on_received(Client& client) = 0;
  /// All of an answer is gone that did not fit at once.
  virtual void on_sent(Client& client) = 0;

  /// Whether it fits at once. If not, the client is not read from until on_sent().
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
