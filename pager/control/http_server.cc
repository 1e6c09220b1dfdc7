#include "pager/control/http_server.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>

namespace weightpager::control {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::string_view head_end = "\r\n\r\n";

tl::unexpected<Error> cannot_listen(uint16_t port, int status) {
  return fail("http at 127.0.0.1:" + std::to_string(port) + ": " + uv_strerror(status),
              "another port, or 0 for any that is free", -status);
}

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

bool begins_with_any_case(std::string_view text, std::string_view beginning) {
  return text.size() >= beginning.size() &&
         strncasecmp(text.data(), beginning.data(), beginning.size()) == 0;
}

/// "127.0.0.1:9090" and the like.
bool is_this_machine(std::string_view host) {
  const std::string_view name = host.substr(0, host.find(':'));
  return name == "127.0.0.1" || name == "localhost";
}

std::string head_of(const HttpResponse& response) {
  return "HTTP/1.1 " + std::to_string(response.status) + " " + reason(response.status) +
         "\r\nContent-Type: " + response.type +
         "\r\nContent-Length: " + std::to_string(response.body.size()) +
         "\r\nConnection: close"
         "\r\nCache-Control: no-store"
         "\r\nX-Content-Type-Options: nosniff"
         "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
         "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
         "\r\n\r\n";
}

}  // namespace

HttpRequest parse_http_request(std::string_view head) {
  const std::string_view line = head.substr(0, head.find(line_end));
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end <= method_end + 1 ||
      !line.substr(target_end + 1).starts_with("HTTP/1.") || line[method_end + 1] != '/') {
    return {.refusal = 400};
  }
  const std::string_view method = line.substr(0, method_end);
  if (method != "GET" && method != "HEAD") return {.refusal = 405};
  bool is_meant_for_us = false;
  for (size_t at = line.size() + line_end.size(); at < head.size();) {
    const std::string_view field = head.substr(at, head.find(line_end, at) - at);
    if (field.empty()) break;
    constexpr std::string_view host = "host:";
    if (begins_with_any_case(field, host)) {
      const size_t begin = std::min(field.find_first_not_of(' ', host.size()), field.size());
      is_meant_for_us = is_this_machine(field.substr(begin));
      if (!is_meant_for_us) break;
    }
    at += field.size() + line_end.size();
  }
  if (!is_meant_for_us) return {.refusal = 403};
  return {.is_head = method == "HEAD",
          .target = line.substr(method_end + 1, target_end - method_end - 1)};
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(Loop& loop, uint16_t port, Respond respond,
                                                       const ClientLimits& limits) {
  std::unique_ptr<HttpServer> it(new HttpServer(loop, std::move(respond), limits));
  if (auto opened = it->open(port); !opened) return forward_error(std::move(opened));
  return it;
}

Status HttpServer::open(uint16_t port) {
  Socket& listener =
      make_listener([](uv_loop_t* loop, Socket& socket) { uv_tcp_init(loop, &socket.tcp); });
  sockaddr_in address{};
  int status = uv_ip4_addr("127.0.0.1", port, &address);
  if (status == 0) {
    status = uv_tcp_bind(&listener.tcp, reinterpret_cast<const sockaddr*>(&address), 0);
  }
  if (status == 0) status = StreamServer::listen();
  int length = sizeof address;
  if (status == 0) {
    status = uv_tcp_getsockname(&listener.tcp, reinterpret_cast<sockaddr*>(&address), &length);
  }
  if (status != 0) return cannot_listen(port, status);
  port_ = ntohs(address.sin_port);
  return {};
}

void HttpServer::on_connect(Client& client, bool is_one_too_many) {
  if (is_one_too_many) return close(client);
  uv_timer_start(
      &client.timer,
      [](uv_timer_t* timer) {
        Client& it = *static_cast<Client*>(timer->data);
        static_cast<HttpServer*>(it.server)->close(it);
      },
      limits_.patience_ms, 0);
}

void HttpServer::on_received(Client& client) {
  const std::string_view received = client.received();
  const size_t end = received.find(head_end);
  if (end == std::string_view::npos) {
    if (received.size() == client.request.size()) respond(client, {.status = 431}, true);
    return;
  }
  const HttpRequest request = parse_http_request(received.substr(0, end + head_end.size()));
  if (request.refusal != 0) return respond(client, {.status = request.refusal}, true);
  respond(client, respond_(request.target), !request.is_head);
}

void HttpServer::respond(Client& client, const HttpResponse& response, bool has_body) {
  stop_reading(client);
  if (send(client, head_of(response) + (has_body ? response.body : ""))) close(client);
}

}  // namespace weightpager::control
