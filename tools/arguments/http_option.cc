#include "tools/arguments/http_option.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "pager/base/owned_fd.h"
#include "tools/arguments/number_argument.h"

namespace weightpager::tools {
namespace {

/// Checks that this user can listen at the port now, in the way that libuv will do it.
Status check_free(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int is_on = 1;
  const OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
  const bool is_free =
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(socket.get(), 1) == 0;
  if (is_free) return {};
  const int error_number = errno;
  return fail(fmt::format("--http {}: {}", port, std::strerror(error_number)),
              "give another port, or 0 for any free one", error_number);
}

}  // namespace

Option http_option() {
  return {0, "http", "PORT",
          "serve a live page and /metrics at 127.0.0.1:PORT (0:\n"
          "any free port); every user of this machine can see them"};
}

Result<std::optional<uint16_t>> parse_http_port(const Arguments& arguments) {
  const auto text = arguments.value("http");
  if (!text) return std::nullopt;
  const auto port = parse_whole(*text, "--http", 0, UINT16_MAX);
  if (port) {
    if (auto free = check_free(static_cast<uint16_t>(*port)); !free)
      return forward_error(std::move(free));
    return static_cast<uint16_t>(*port);
  }
  return fail(fmt::format("--http {}: not a port", *text),
              "give a number from 1 to 65535, or 0 for any free port");
}

}  // namespace weightpager::tools
