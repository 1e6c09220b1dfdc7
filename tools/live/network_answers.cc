#include "tools/live/network_answers.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "pager/base/units.h"
#include "pager/control/answer.h"
#include "pager/control/metrics_text.h"
#include "pager/telemetry/telemetry.h"
#include "tools/cli/version.h"

namespace weightpager::tools {
namespace {

using control::ControlRequest;
using Json = nlohmann::ordered_json;
using serve::NetworkState;
using serve::ServingState;

constexpr char without_changes[] = "hello, stat, metrics";
constexpr char with_changes[] = "hello, stat, metrics, set";
constexpr std::string_view of_pagers[] = {"histograms", "residency", "trace", "set"};

Json hello(const char* kind, const char* known_requests, const ServingState& state) {
  Json json = {{"kind", kind},
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

Json metrics(const ServingState& state) {
  control::MetricsText text;
  text.add_family({"weightpager_budget_bytes", "bytes"}, "gauge",
                  "budget of all networks together");
  text.add("", {}, state.budget_bytes);
  const auto add_of_each = [&](const control::MetricName& name, const char* type, const char* help,
                               uint64_t NetworkState::*figure) {
    text.add_family(name, type, help);
    for (const NetworkState& it : state.networks) {
      text.add(type == std::string_view("counter") ? "_total" : "", {{"network", it.name}},
               it.*figure);
    }
  };
  add_of_each({"weightpager_network_window_bytes", "bytes"}, "gauge", "memory for weights",
              &NetworkState::held_bytes);
  add_of_each({"weightpager_network_fixed_bytes", "bytes"}, "gauge",
              "activations and scratch memory", &NetworkState::fixed_bytes);
  add_of_each({"weightpager_network_read_bytes", "bytes"}, "counter", "weights that were read",
              &NetworkState::read_bytes);
  add_of_each({"weightpager_network_inferences", ""}, "counter", "inferences that have ended",
              &NetworkState::inferences);
  return {{"text", text.end()}};
}

Result<uint64_t> budget_asked(const ControlRequest& request) {
  const auto text = request.text("budget");
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return fail("set: nothing to set", "give \"budget\"");
  return parse_size(**text, "budget");
}

}  // namespace

std::string NetworkAnswers::answer(std::string_view line) {
  const auto request = control::parse_request(line);
  if (!request) return control::answer_line("", tl::make_unexpected(request.error()));
  const std::string& name = request->name();
  const char* const known_requests = source_.change_budget ? with_changes : without_changes;
  const auto carry_out = [&]() -> Result<Json> {
    const bool is_set = name == "set" && source_.change_budget;
    const Status known = is_set ? request->expect_only({"budget"}) : request->expect_only({});
    if (name == "hello" || name == "stat" || name == "metrics" || is_set) {
      if (!known) return tl::make_unexpected(known.error());
    } else if (std::find(std::begin(of_pagers), std::end(of_pagers), name) != std::end(of_pagers)) {
      return fail(name + ": this process runs networks itself, without a pager",
                  std::string("there are ") + known_requests);
    }
    if (name == "hello") return hello(source_.kind, known_requests, source_.state());
    if (name == "stat") return stat(source_.state());
    if (name == "metrics") return metrics(source_.state());
    if (!is_set) return control::unknown_request(*request, known_requests);
    const auto budget = budget_asked(*request);
    if (!budget) return tl::make_unexpected(budget.error());
    const auto former = source_.change_budget(*budget);
    if (!former) return tl::make_unexpected(former.error());
    return control::change_json("budget_bytes", *former, *budget);
  };
  return control::answer_line(name, carry_out());
}

}  // namespace weightpager::tools
