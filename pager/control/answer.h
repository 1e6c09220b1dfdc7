// The form of every answer: it holds either the data that was asked for, or an error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "pager/base/result.h"
#include "pager/control/request.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::control {

/// `answer` to `request`, or its error, as a line without its end.
std::string answer_line(const std::string& request, const Result<nlohmann::ordered_json>& answer);

/// An error that lists the requests that are known.
tl::unexpected<Error> unknown_request(const ControlRequest& request, std::string_view known);

/// {"what": …, "old": …, "new": …}
nlohmann::ordered_json change_json(const char* what, nlohmann::ordered_json before,
                                   nlohmann::ordered_json after);

nlohmann::ordered_json histogram_json(const telemetry::Histogram& histogram);

}  // namespace weightpager::control
