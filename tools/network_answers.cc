#include "tools/network_answers.h"

#include <unistd.h>

#include "pager/base/units.h"
#include "pager/control/answer.h"
#include "pager/telemetry/telemetry.h"
#include "tools/version.h"

namespace weightpager::tools {
namespace {

using control::Request;
using Json = nlohmann::ordered_json;
using serve::NetworkState;
using serve::ServingState;

constexpr char known_requests[] = "hello, stat, set";

Json hello(const ServingState& state) {
  Json json = {{"kind", "networks"},
               {"weightpager_version", version_number()},
               {"requests", known_requests},
               {"process_id", getpid()},
               {"command", "weightpager"},
               {"policy", ""},
               {"window_bytes", state.budget_bytes},
               {"window_bytes_min", state.least_budget_bytes},
               {"models_total", state.networks.size()},
               {"models", Json::array()}};
  for (const NetworkState& it : state.networks) {
    json["models"].push_back({{"name", it.name}, {"size_bytes", it.weights_bytes}});
  }
  return json;
}

Json stat(const ServingState& state) {
  Json json = {
      {"time_ns", telemetry::monotonic_ns()}, {"process_id", getpid()},
      {"budget_bytes", state.budget_bytes},   {"least_budget_bytes", state.least_budget_bytes},
      {"peak_bytes", state.peak_bytes},       {"networks", Json::array()}};
  for (const NetworkState& it : state.networks) {
    json["networks"].push_back({{"name", it.name},
                                {"weights_bytes", it.weights_bytes},
                                {"fixed_bytes", it.fixed_bytes},
                                {"share_bytes", it.share_bytes},
                                {"window_bytes", it.held_bytes},
                                {"read_bytes", it.read_bytes},
                                {"period_ns", it.period_ns},
                                {"planned_ns", it.planned_ns},
                                {"inferences", it.inferences}});
  }
  return json;
}

Result<uint64_t> budget_asked(const Request& request) {
  const auto text = request.text("budget");
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return fail("set: nothing to set", "it takes budget");
  return parse_size(**text, "budget");
}

}  // namespace

std::string NetworkAnswers::answer(std::string_view line) {
  const auto request = control::parse_request(line);
  if (!request) return control::answer_line("", tl::make_unexpected(request.error()));
  const auto carry_out = [&]() -> Result<Json> {
    const bool is_set = request->name() == "set";
    const Status known = is_set ? request->expect_only({"budget"}) : request->expect_only({});
    if (!known) return tl::make_unexpected(known.error());
    if (request->name() == "hello") return hello(serving_.state());
    if (request->name() == "stat") return stat(serving_.state());
    if (!is_set) return control::unknown_request(*request, known_requests);
    const auto budget = budget_asked(*request);
    if (!budget) return tl::make_unexpected(budget.error());
    const Status possible = serving_.check_budget(*budget);
    if (!possible) return tl::make_unexpected(possible.error());
    return control::change_json("budget_bytes", wanted_bytes_.exchange(*budget), *budget);
  };
  return control::answer_line(request->name(), carry_out());
}

}  // namespace weightpager::tools
