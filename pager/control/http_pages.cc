#include "pager/control/http_pages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "live_page.h"
#include "pager/control/open_metrics.h"

namespace weightpager::control {
namespace {

using nlohmann::json;

constexpr char json_type[] = "application/json; charset=utf-8";
constexpr char html_type[] = "text/html; charset=utf-8";
constexpr std::string_view api = "/api/";
// Every user of this machine can connect, so "trace" and "set" are left out.
constexpr std::array<std::string_view, 5> requests = {"hello", "stat", "histograms", "residency",
                                                      "metrics"};

HttpResponse not_found() {
  return {.status = 404, .body = "there are /, /metrics and /api/stat\n"};
}

HttpResponse metrics(const Answer& answer) {
  const json said = json::parse(answer(R"({"request":"metrics"})"), nullptr, false);
  if (!said.is_object() || !said.contains("text")) return {.status = 503};
  return {.type = open_metrics_type, .body = said["text"].get<std::string>()};
}

/// Adds "model=0&by=layer" as a request's values; digits become numbers.
void add_query(json& request, std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string key(pair.substr(0, equals));
    const std::string_view value = pair.substr(equals + 1);
    uint64_t number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = problem == std::errc{} && end == value.data() + value.size();
    request[key] = is_number ? json(number) : json(std::string(value));
  }
}

HttpResponse ask(std::string_view name, std::string_view query, const Answer& answer) {
  if (std::find(requests.begin(), requests.end(), name) == requests.end()) return not_found();
  json request;
  add_query(request, query);
  request["request"] = std::string(name);
  return {.type = json_type,
          .body = answer(request.dump(-1, ' ', false, json::error_handler_t::replace)) + "\n"};
}

}  // namespace

HttpResponse http_page(std::string_view target, const Answer& answer) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = target.substr(std::min(target.size(), path.size() + 1));
  if (path == "/") return {.type = html_type, .body = live_page};
  if (path == "/metrics") return metrics(answer);
  if (path.starts_with(api)) return ask(path.substr(api.size()), query, answer);
  return not_found();
}

Result<std::unique_ptr<HttpServer>> serve_pages(Loop& loop, uint16_t port, Answer answer) {
  return HttpServer::listen(loop, port, [answer = std::move(answer)](std::string_view target) {
    return http_page(target, answer);
  });
}

}  // namespace weightpager::control
