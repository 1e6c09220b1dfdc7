// The pages that are served over HTTP: the live page, the answers that it asks for, and /metrics.
//
// /            the page: one file that needs no other
// /metrics     OpenMetrics
// /api/NAME    the control socket's answers to requests that change nothing:
//              /api/residency?model=0&by=layer (docs/reference/control.md)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "pager/control/http_server.h"

namespace weightpager::control {

/// `answer` answers a request of the control socket.
using Answer = std::function<std::string(std::string_view request)>;
HttpResponse http_page(std::string_view target, const Answer& answer);

/// Serves all pages at 127.0.0.1, at the port or at any free one (0).
Result<std::unique_ptr<HttpServer>> serve_pages(Loop& loop, uint16_t port, Answer answer);

}  // namespace weightpager::control
