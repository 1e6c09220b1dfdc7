// A few pages over HTTP for programs on this machine: libuv's loop around one function.
//
// As with the control socket (line_server.h) everything is bounded: the number of clients, the
// length of a request, and the time that a client has for sending its own and taking the answer.
// One request a connection. Listens at 127.0.0.1 only, where every user of the machine can connect:
// what is served may be seen by all of them, and nothing can be changed. A browser that was lured
// here under another host's name is refused, so that a page from elsewhere cannot read along.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::control {

struct HttpResponse {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpServerOptions {
  size_t clients_max = 16;
  size_t request_bytes_max = 4096;
  /// From connecting to the answer's last byte.
  uint64_t client_ms_max = 10'000;
};

class HttpServer {
 public:
  /// `target`: path and query of a GET. On the loop's thread.
  using Respond = std::function<HttpResponse(std::string_view target)>;

  /// On `loop`, which is not owned, and the port, or any that is free (0).
  static Result<std::unique_ptr<HttpServer>> listen(uv_loop_t& loop, uint16_t port, Respond respond,
                                                    const HttpServerOptions& options = {});
  /// Requires that the loop has run out since close_all().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return port_; }
  /// On the loop's thread.
  void close_all();

 private:
  struct Client;

  HttpServer(uv_loop_t& loop, Respond respond, const HttpServerOptions& options);

  Status open(uint16_t port);
  void let_in();
  void take(Client& client, ssize_t length_bytes);
  void send(Client& client, const HttpResponse& response, bool has_body);
  void close(Client& client);

  uv_loop_t& loop_;
  const Respond respond_;
  const HttpServerOptions options_;
  uv_tcp_t listener_{};
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
};

/// What is wrong with a request's head (as far as its empty line), or its target.
struct HttpRequest {
  int refusal = 0;  // an HTTP status; 0: none
  bool is_head = false;
  std::string_view target;
};
HttpRequest parse_http_request(std::string_view head);

}  // namespace weightpager::control
