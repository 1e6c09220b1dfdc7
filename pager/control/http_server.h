// Serves a few pages over HTTP to programs on this machine. stream_server.h bounds what a client
// can take.
//
// One request for each connection. The server listens at 127.0.0.1 only. Every user of the machine
// can connect there, so the pages may be seen by all of them and can change nothing. A browser that
// was lured here under another host's name is refused, so that a page from elsewhere cannot read
// the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/control/stream_server.h"

namespace weightpager::control {

struct HttpResponse {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer final : public StreamServer {
 public:
  /// `target`: path and query of a GET. Called on the loop's thread.
  using Respond = std::function<HttpResponse(std::string_view target)>;

  /// Listens at the port, or at any free one (0). Patience lasts from the moment that a client
  /// connects to the answer's last byte.
  static Result<std::unique_ptr<HttpServer>> listen(Loop& loop, uint16_t port, Respond respond,
                                                    const ClientLimits& limits = {});
  uint16_t port() const { return port_; }

 private:
  HttpServer(Loop& loop, Respond respond, const ClientLimits& limits)
      : StreamServer(loop, limits), respond_(std::move(respond)) {}

  Status open(uint16_t port);
  void on_connect(Client& client, bool is_one_too_many) override;
  void on_received(Client& client) override;
  void on_sent(Client& client) override { close(client); }
  void respond(Client& client, const HttpResponse& response, bool has_body);

  const Respond respond_;
  uint16_t port_ = 0;
};

/// A parsed head of a request (up to its empty line): its target, or the status that refuses it.
struct HttpRequest {
  int refusal = 0;  // an HTTP status; 0: none
  bool is_head = false;
  std::string_view target;
};
HttpRequest parse_http_request(std::string_view head);

}  // namespace weightpager::control
