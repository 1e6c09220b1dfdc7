#include "pager/control/answer.h"

#include <nlohmann/json.hpp>

namespace weightpager::control {

using Json = nlohmann::ordered_json;

std::string answer_line(const std::string& request, const Result<Json>& answer) {
  Json line = {{"version", protocol_version}, {"ok", answer.has_value()}};
  if (!request.empty()) line["request"] = request;
  if (answer) {
    line.update(*answer);
  } else {
    line["error"] = answer.error().message;
    line["hint"] = answer.error().hint;
  }
  // Names of files and commands need not be UTF-8, but JSON must be.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

tl::unexpected<Error> unknown_request(const ControlRequest& request, std::string_view known) {
  return fail("unknown request " + model::describe(request.name()),
              "there are " + std::string(known));
}

Json change_json(const char* what, Json before, Json after) {
  return {{"what", what}, {"old", std::move(before)}, {"new", std::move(after)}};
}

Json histogram_json(const telemetry::Histogram& histogram) {
  const telemetry::Distribution counts = histogram.distribution();
  Json buckets = Json::array();
  for (uint32_t i = 0; i < telemetry::HistogramScale::buckets; ++i) {
    if (counts.count_in(i) == 0) continue;
    buckets.push_back({telemetry::HistogramScale::begin_of(i),
                       telemetry::HistogramScale::begin_of(i + 1), counts.count_in(i)});
  }
  return {{"count", counts.count()},         {"sum_ns", histogram.sum()},
          {"p50_ns", counts.quantile(0.5)},  {"p90_ns", counts.quantile(0.9)},
          {"p99_ns", counts.quantile(0.99)}, {"p999_ns", counts.quantile(0.999)},
          {"max_ns", counts.quantile(1)},    {"buckets", std::move(buckets)}};
}

}  // namespace weightpager::control
