// What there is over HTTP: the live page, what it asks for, and /metrics.
//
// /            the page, one file without anything beside it
// /metrics     OpenMetrics
// /api/NAME    the control socket's answers to requests that change nothing (docs/control.md):
//              /api/residency?model=0&by=layer
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "pager/control/http_server.h"

namespace weightpager::control {

/// `answer` answers a request of the control socket.
HttpResponse http_page(std::string_view target,
                       const std::function<std::string(std::string_view)>& answer);

}  // namespace weightpager::control
