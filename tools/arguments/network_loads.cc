// See network_loads.h.
#include "tools/arguments/network_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "pager/base/units.h"
#include "tools/arguments/number_argument.h"

namespace weightpager::tools {
namespace {

constexpr NumberRange urgencies_range = {1e-3, 1000};
constexpr NumberRange periods_ms_range = {1, 60'000};

struct NamedGoal {
  std::string_view word;
  serve::SharingGoal goal;
};
constexpr NamedGoal goals[] = {{"mean", serve::SharingGoal::mean_slowdown},
                               {"slowdown", serve::SharingGoal::largest_slowdown},
                               {"latency", serve::SharingGoal::largest_latency}};

/// One number for each network; `otherwise` for each if the option is not given.
Result<std::vector<double>> numbers_of(const Arguments& arguments, const std::string& option,
                                       double otherwise, const NumberRange& range) {
  const size_t networks = arguments.operands().size();
  const auto text = arguments.value(option);
  if (!text) return std::vector<double>(networks, otherwise);
  auto numbers = parse_numbers(*text, "--" + option, range);
  if (!numbers) return numbers;
  if (numbers->size() != networks) {
    return fail(fmt::format("--{} {}: expected a number for each of {} networks, found {}", option,
                            *text, networks, numbers->size()));
  }
  return numbers;
}

}  // namespace

Option urgency_option() {
  return {0, "urgency", "N,…", "by network: with 2, every delay counts twice (1)"};
}

Option period_option() {
  return {0, "period", "MS,…",
          "by network: milliseconds between two images; an image is due\n"
          "when the next one comes (one inference after the other)"};
}

Option goal_option() {
  return {0,
          "goal",
          "WHAT",
          "what the shares make small (mean); a network's slowdown is\n"
          "its delay as a share of its delay in memory, or of its period\n"
          "mean: the mean slowdown\n"
          "slowdown: the largest slowdown\n"
          "latency: the largest delay",
          {"mean", "slowdown", "latency"}};
}

Result<NetworkLoads> parse_network_loads(const Arguments& arguments,
                                         const std::string& usage_example) {
  if (!arguments.has("budget")) return fail("--budget is missing", usage_example);
  const auto budget = parse_bytes(*arguments.value("budget"), "--budget");
  if (!budget) return tl::make_unexpected(budget.error());
  NetworkLoads loads = {.budget_bytes = *budget};
  auto urgencies = numbers_of(arguments, "urgency", 1, urgencies_range);
  if (!urgencies) return forward_error(std::move(urgencies));
  loads.urgencies = std::move(*urgencies);
  const auto periods_ms = numbers_of(arguments, "period", 0, periods_ms_range);
  if (!periods_ms) return tl::make_unexpected(periods_ms.error());
  loads.goal_word = arguments.value("goal").value_or("mean");
  const auto* const goal =
      std::find_if(std::begin(goals), std::end(goals),
                   [&loads](const auto& it) { return it.word == loads.goal_word; });
  if (goal == std::end(goals)) {
    return fail(fmt::format("--goal {}: expected mean, slowdown or latency", loads.goal_word));
  }
  loads.goal = goal->goal;
  for (const double ms : *periods_ms) loads.periods_ns.push_back(static_cast<uint64_t>(ms * 1e6));
  return loads;
}

}  // namespace weightpager::tools
