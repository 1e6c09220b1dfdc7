#include "tools/http_option.h"

#include <fmt/core.h>

#include <charconv>

namespace weightpager::tools {

Option http_option() {
  return {0, "http", "PORT",
          "serve a live page and /metrics at 127.0.0.1:PORT (0: any\n"
          "that is free), which every user of this machine can see"};
}

Result<std::optional<uint16_t>> parse_http_port(const Arguments& arguments) {
  const auto text = arguments.value("http");
  if (!text) return std::nullopt;
  uint16_t port = 0;
  const char* const end = text->data() + text->size();
  const auto [stopped_at, problem] = std::from_chars(text->data(), end, port);
  if (problem == std::errc{} && stopped_at == end) return port;
  return fail(fmt::format("--http {}: no port", *text),
              "from 1 to 65535, or 0 for any that is free");
}

}  // namespace weightpager::tools
