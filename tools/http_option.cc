#include "tools/http_option.h"

#include <fmt/core.h>

#include "tools/number_argument.h"

namespace weightpager::tools {

Option http_option() {
  return {0, "http", "PORT",
          "serve a live page and /metrics at 127.0.0.1:PORT (0: any\n"
          "that is free), which every user of this machine can see"};
}

Result<std::optional<uint16_t>> parse_http_port(const Arguments& arguments) {
  const auto text = arguments.value("http");
  if (!text) return std::nullopt;
  const auto port = parse_whole(*text, "--http", 0, UINT16_MAX);
  if (port) return static_cast<uint16_t>(*port);
  return fail(fmt::format("--http {}: no port", *text),
              "from 1 to 65535, or 0 for any that is free");
}

}  // namespace weightpager::tools
