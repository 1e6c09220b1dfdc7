#include "pager/control/guest_answers.h"

#include <nlohmann/json.hpp>

#include "pager/control/answer.h"

namespace weightpager::control {
namespace {

using Json = nlohmann::ordered_json;
using attach::AttachedPager;
using telemetry::Telemetry;

constexpr char guest_requests[] = "hello, stat";

Json guest_hello(AttachedPager& pager, const Telemetry& telemetry) {
  Json models = Json::array();
  for (const AttachedPager::View& it : pager.views()) {
    models.push_back({{"name", it.name}, {"size_bytes", it.size_bytes}});
  }
  return {{"kind", "guest"},
          {"weightpager_version", WP_VERSION},
          {"requests", guest_requests},
          {"process_id", telemetry.process_id},
          {"server_process_id", pager.server_process_id()},
          {"command", telemetry.command},
          {"policy", ""},
          {"window_bytes", 0},
          {"models_total", models.size()},
          {"models", std::move(models)}};
}

Json guest_stat(AttachedPager& pager, const Telemetry& telemetry) {
  const auto views = pager.views();
  uint64_t view_bytes = 0;
  for (const AttachedPager::View& it : views) view_bytes += it.size_bytes;
  return {{"time_ns", telemetry::monotonic_ns()},
          {"process_id", telemetry.process_id},
          {"server_process_id", pager.server_process_id()},
          {"started_ns", telemetry.started_ns.load()},
          {"views", views.size()},
          {"view_bytes", view_bytes},
          {"read_errors", telemetry.read_errors.load()}};
}

}  // namespace

std::string GuestAnswers::answer(std::string_view line) {
  const auto request = parse_request(line);
  if (!request) return answer_line("", tl::make_unexpected(request.error()));
  const auto carry_out = [&]() -> Result<Json> {
    const bool is_known = request->name() == "hello" || request->name() == "stat";
    if (!is_known) {
      const std::string server = std::to_string(pager_.server_process_id());
      return fail(request->name() + ": this process is attached to server " + server +
                      ", which has the window",
                  "ask process " + server + "; here there are " + guest_requests);
    }
    if (auto known = request->expect_only({}); !known) return tl::make_unexpected(known.error());
    return request->name() == "hello" ? guest_hello(pager_, telemetry_)
                                      : guest_stat(pager_, telemetry_);
  };
  return answer_line(request->name(), carry_out());
}

}  // namespace weightpager::control
