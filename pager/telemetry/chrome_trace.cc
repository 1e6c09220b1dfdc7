#include "pager/telemetry/chrome_trace.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace weightpager::telemetry {

using Json = nlohmann::ordered_json;

namespace {

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

Json name_of(const char* what, uint64_t process, uint64_t thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

ChromeTrace::ChromeTrace() : events_(std::make_unique<Json>(Json::array())) {}
ChromeTrace::~ChromeTrace() = default;
ChromeTrace::ChromeTrace(ChromeTrace&&) noexcept = default;

void ChromeTrace::name_process(uint64_t process, const std::string& name) {
  events_->push_back(name_of("process_name", process, 0, name));
}

void ChromeTrace::name_lane(const TraceLane& lane, const std::string& name) {
  events_->push_back(name_of("thread_name", lane.process, lane.thread, name));
}

void ChromeTrace::add_span(const TraceLane& lane, const std::string& name, int64_t start_ns,
                           int64_t end_ns) {
  Json span = event(lane, name, "X", start_ns);
  span["dur"] = microseconds(end_ns - start_ns);
  events_->push_back(std::move(span));
}

void ChromeTrace::add_overlapping(const TraceLane& lane, const std::string& name, uint64_t id,
                                  int64_t start_ns, int64_t end_ns) {
  Json begin = event(lane, name, "b", start_ns);
  Json end = event(lane, name, "e", end_ns);
  begin["id"] = end["id"] = id;
  events_->push_back(std::move(begin));
  events_->push_back(std::move(end));
}

void ChromeTrace::add_instant(const TraceLane& lane, const std::string& name, int64_t time_ns) {
  Json instant = event(lane, name, "i", time_ns);
  instant["s"] = "t";
  events_->push_back(std::move(instant));
}

std::string ChromeTrace::json() const {
  const Json whole = {{"displayTimeUnit", "ms"}, {"traceEvents", *events_}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json ChromeTrace::event(const TraceLane& lane, const std::string& name, const char* phase,
                        int64_t time_ns) const {
  return {{"name", name},        {"cat", lane.category}, {"ph", phase},
          {"pid", lane.process}, {"tid", lane.thread},   {"ts", microseconds(time_ns)}};
}

}  // namespace weightpager::telemetry
