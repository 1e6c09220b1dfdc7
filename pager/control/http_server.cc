#include "pager/control/http_server.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>

namespace weightpager::control {
namespace {

constexpr int http_backlog = 16;
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

struct HttpServer::Client {
  HttpServer* server = nullptr;
  uv_tcp_t socket{};
  uv_timer_t timer{};
  uv_write_t writing{};
  std::vector<char> request;
  size_t request_bytes = 0;
  std::string answer;
  int handles_open = 2;

  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&socket); }
};

HttpServer::HttpServer(uv_loop_t& loop, Respond respond, const HttpServerOptions& options)
    : loop_(loop), respond_(std::move(respond)), options_(options) {}

HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(uv_loop_t& loop, uint16_t port,
                                                       Respond respond,
                                                       const HttpServerOptions& options) {
  std::unique_ptr<HttpServer> it(new HttpServer(loop, std::move(respond), options));
  auto opened = it->open(port);
  if (opened) return it;
  // What libuv has begun it must end before the object can go.
  it->close_all();
  uv_run(&loop, UV_RUN_NOWAIT);
  return forward_error(std::move(opened));
}

Status HttpServer::open(uint16_t port) {
  sockaddr_in address{};
  uv_tcp_init(&loop_, &listener_);
  listener_.data = this;
  int status = uv_ip4_addr("127.0.0.1", port, &address);
  if (status == 0) {
    status = uv_tcp_bind(&listener_, reinterpret_cast<const sockaddr*>(&address), 0);
  }
  if (status == 0) {
    status = uv_listen(reinterpret_cast<uv_stream_t*>(&listener_), http_backlog,
                       [](uv_stream_t* it, int failed) {
                         if (failed == 0) static_cast<HttpServer*>(it->data)->let_in();
                       });
  }
  int length = sizeof address;
  if (status == 0) {
    status = uv_tcp_getsockname(&listener_, reinterpret_cast<sockaddr*>(&address), &length);
  }
  if (status != 0) return cannot_listen(port, status);
  port_ = ntohs(address.sin_port);
  return {};
}

void HttpServer::let_in() {
  auto made = std::make_unique<Client>();
  Client& client = *made;
  client.server = this;
  client.request.resize(options_.request_bytes_max);
  uv_tcp_init(&loop_, &client.socket);
  uv_timer_init(&loop_, &client.timer);
  client.socket.data = client.timer.data = client.writing.data = &client;
  const bool is_accepted =
      uv_accept(reinterpret_cast<uv_stream_t*>(&listener_), client.stream()) == 0;
  const bool is_one_too_many = clients_.size() >= options_.clients_max;
  clients_.push_back(std::move(made));
  if (!is_accepted || is_one_too_many) return close(client);
  uv_timer_start(
      &client.timer,
      [](uv_timer_t* timer) {
        Client& it = *static_cast<Client*>(timer->data);
        it.server->close(it);
      },
      options_.client_ms_max, 0);
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

void HttpServer::take(Client& client, ssize_t length_bytes) {
  if (length_bytes < 0) return close(client);
  client.request_bytes += static_cast<size_t>(length_bytes);
  const std::string_view received(client.request.data(), client.request_bytes);
  const size_t end = received.find(head_end);
  if (end == std::string_view::npos) {
    if (received.size() == client.request.size()) send(client, {.status = 431}, true);
    return;
  }
  const HttpRequest request = parse_http_request(received.substr(0, end + head_end.size()));
  if (request.refusal != 0) return send(client, {.status = request.refusal}, true);
  send(client, respond_(request.target), !request.is_head);
}

void HttpServer::send(Client& client, const HttpResponse& response, bool has_body) {
  uv_read_stop(client.stream());
  client.answer = head_of(response);
  if (has_body) client.answer += response.body;
  const uv_buf_t all =
      uv_buf_init(client.answer.data(), static_cast<unsigned>(client.answer.size()));
  const auto on_written = [](uv_write_t* writing, int) {
    Client& it = *static_cast<Client*>(writing->data);
    it.server->close(it);
  };
  if (uv_write(&client.writing, client.stream(), &all, 1, on_written) != 0) close(client);
}

void HttpServer::close(Client& client) {
  if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&client.socket))) return;
  const auto on_closed = [](uv_handle_t* handle) {
    Client* const it = static_cast<Client*>(handle->data);
    if (--it->handles_open > 0) return;
    std::erase_if(it->server->clients_, [it](const auto& one) { return one.get() == it; });
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&client.socket), on_closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&client.timer), on_closed);
}

void HttpServer::close_all() {
  for (const auto& client : clients_) close(*client);
  auto* const listener = reinterpret_cast<uv_handle_t*>(&listener_);
  if (!uv_is_closing(listener)) uv_close(listener, nullptr);
}

}  // namespace weightpager::control
