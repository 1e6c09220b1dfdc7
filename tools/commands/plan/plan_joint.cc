// `weightpager plan NET.cfg…`: plans one budget for everything that networks need.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "runtime/budget/shares.h"
#include "runtime/budget/step_function.h"
#include "runtime/infer/trial_run.h"
#include "runtime/network/parser.h"
#include "runtime/plan/plan_file.h"
#include "runtime/serve/demand.h"
#include "tools/arguments/network_loads.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/plan/joint_plans.h"
#include "tools/commands/plan/measured_profile.h"
#include "tools/commands/plan/plan.h"
#include "tools/report/report_file.h"
#include "tools/terminal/search_in_time.h"

namespace weightpager::tools {
namespace {

using network::Network;
using plan::JointPlan;
using plan::JointPlanner;

constexpr int front_points = 12;
constexpr uint64_t more_bytes = 10 * MiB;
// At most so many plans get a trial run. By calculation, each may be at most this factor slower
// than the best one.
constexpr size_t tried_plans_max = 3;
constexpr double tried_slower_max = 1.5;
const char* const searching = "searching for plans";
const char* const joint_example = "weightpager plan resnet50.cfg --budget 64MiB";

struct JointOptions {
  std::vector<std::string> cfg_paths;
  std::optional<network::Resolution> resolution;
  std::optional<NetworkLoads> loads;
  std::string weights_path;
  double disk_gb_per_s = 2;
  int threads = 1;
  TimeLimit time_limit;
  bool is_explained = false;
  std::string output_path;
  std::string json_path;
  std::string html_path;
};

Result<JointOptions> read_joint_options(const Arguments& arguments) {
  JointOptions options = {.cfg_paths = arguments.operands(),
                          .weights_path = arguments.value("weights").value_or(""),
                          .is_explained = arguments.has("explain"),
                          .output_path = arguments.value("output").value_or(""),
                          .json_path = arguments.value("json").value_or(""),
                          .html_path = arguments.value("html").value_or("")};
  if (options.cfg_paths.empty()) return fail("expected one .cfg or more", joint_example);
  if (arguments.has("budget")) {
    auto loads = parse_network_loads(arguments, joint_example);
    if (!loads) return forward_error(std::move(loads));
    options.loads = std::move(*loads);
  }
  for (const std::string option : {"urgency", "period", "goal", "output", "explain"}) {
    if (!options.loads && arguments.has(option)) {
      return fail(fmt::format("--{} is about a budget, and there is none", option), joint_example);
    }
  }
  if (!options.output_path.empty() && options.cfg_paths.size() > 1) {
    return fail("--output writes the plan of one network",
                "plan each network with its share as --budget");
  }
  const auto disk =
      parse_number(arguments.value("disk").value_or("2"), "--disk", bandwidths_gb_per_s);
  if (!disk) return tl::make_unexpected(disk.error());
  options.disk_gb_per_s = *disk;
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return tl::make_unexpected(resolution.error());
  options.resolution = *resolution;
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  options.threads = *threads;
  const auto time_limit = parse_time_limit(arguments);
  if (!time_limit) return tl::make_unexpected(time_limit.error());
  options.time_limit = *time_limit;
  return options;
}

/// A network, and the data that its planner refers to.
struct PlannedTogether {
  network::Network network;
  plan::Profile profile;
  std::optional<JointPlanner> planner;
};

/// The twelve plans of a front take most of the time. A single network with a budget needs only one
/// plan.
bool needs_fronts(const JointOptions& options) {
  const bool is_divided = options.cfg_paths.size() > 1;
  return !options.loads || is_divided || !options.html_path.empty();
}

Result<JointPlan> plan_in_time(JointPlanner& planner, uint64_t budget_bytes,
                               const JointOptions& options) {
  return planner.plan(budget_bytes, SearchInTime(options.time_limit, searching).limit());
}

Status plan_front(JointPlanner& planner, const JointOptions& options, NetworkPlans& plans) {
  const SearchInTime search(options.time_limit, searching);
  const auto least = static_cast<double>(planner.least_bytes());
  const double ratio = static_cast<double>(planner.most_bytes()) / least;
  for (int i = 0; i < front_points; ++i) {
    const double factor = std::pow(ratio, static_cast<double>(i) / (front_points - 1));
    const uint64_t budget_bytes = i == 0                  ? planner.least_bytes()
                                  : i == front_points - 1 ? planner.most_bytes()
                                                          : static_cast<uint64_t>(least * factor);
    auto plan = planner.plan(budget_bytes, search.limit());
    if (!plan) return tl::make_unexpected(plan.error());
    plans.is_cut_short |= plan->is_cut_short;
    const bool is_better = plans.front.empty() || plan->delay_ns < plans.front.back().plan.delay_ns;
    if (is_better) plans.front.push_back({budget_bytes, std::move(*plan)});
  }
  return {};
}

/// Divides the budget by the networks' fronts. The use of each share is planned again afterwards.
Result<budget::Shares> divide(const JointPlans& plans, const NetworkLoads& loads) {
  std::vector<budget::Claim> claims;
  std::vector<budget::StepFunction> step_functions;
  for (size_t i = 0; i < plans.networks.size(); ++i) {
    const NetworkPlans& it = plans.networks[i];
    const uint64_t latency_ns = it.front.back().plan.delay_ns;
    claims.push_back({.name = it.cfg_path,
                      .model_bytes = it.front.back().budget_bytes,
                      .least_bytes = it.least_bytes,
                      .forced_by = it.forced_by,
                      .latency_ns = latency_ns,
                      .urgency = loads.urgencies[i],
                      .weight = serve::delay_weight(loads.goal, loads.urgencies[i],
                                                    loads.periods_ns[i], latency_ns)});
    std::vector<budget::Step> steps;
    for (const BudgetedPlan& point : it.front) {
      steps.push_back({point.budget_bytes, point.plan.delay_ns});
    }
    step_functions.emplace_back(std::move(steps));
  }
  auto shares = budget::share_jointly(claims, step_functions, loads.budget_bytes,
                                      serve::goal_of_delays(loads.goal));
  if (!shares) return forward_error(std::move(shares));
  return std::move(shares->shares);
}

/// The plans for trial runs: the best one by calculation, and those that plan one thing after the
/// other, if they are not much worse and compute in another way.
std::vector<JointPlan> worth_a_trial_run(JointPlan best, std::vector<JointPlan> others) {
  std::stable_sort(others.begin(), others.end(), [](const JointPlan& left, const JointPlan& right) {
    return left.delay_ns < right.delay_ns;
  });
  const auto slowest_ns =
      static_cast<uint64_t>(tried_slower_max * static_cast<double>(best.delay_ns));
  std::vector<JointPlan> plans;
  plans.push_back(std::move(best));
  for (JointPlan& it : others) {
    const bool is_new = std::none_of(plans.begin(), plans.end(), [&](const JointPlan& known) {
      return known.choices == it.choices;
    });
    if (!is_new || it.delay_ns > slowest_ns || plans.size() == tried_plans_max) continue;
    plans.push_back(std::move(it));
  }
  return plans;
}

/// The plan whose trial run was the fastest. If no trial run is possible, for example for lack of
/// disk space, it is the best plan by calculation.
JointPlan fastest_tried(const Network& network, std::vector<JointPlan> plans,
                        const JointOptions& options) {
  const auto trial = infer::run_trials(network, plans, options.weights_path, options.threads);
  if (!trial) {
    notice("the plan was calculated, not tried: " + trial.error().message);
    return std::move(plans.front());
  }
  JointPlan& fastest = plans[trial->fastest];
  fastest.trial_run_ns = trial->delay_ns;
  return std::move(fastest);
}

Status choose(JointPlanner& planner, uint64_t budget_bytes, const JointOptions& options,
              NetworkPlans& plans) {
  auto plan = plan_in_time(planner, budget_bytes, options);
  if (!plan) return tl::make_unexpected(plan.error());
  plans.is_cut_short |= plan->is_cut_short;
  const bool is_tried = !options.weights_path.empty() && options.cfg_paths.size() == 1;
  if (is_tried) {
    auto candidates =
        worth_a_trial_run(std::move(*plan), planner.plans_one_after_another(budget_bytes));
    plans.tried_plans = candidates.size();
    plan = fastest_tried(plans.network, std::move(candidates), options);
  }
  plans.chosen = {budget_bytes, std::move(*plan)};
  if (!options.is_explained && options.html_path.empty()) return {};
  auto with_more = plan_in_time(planner, budget_bytes + more_bytes, options);
  if (!with_more) return tl::make_unexpected(with_more.error());
  plans.with_more = {budget_bytes + more_bytes, std::move(*with_more)};
  return {};
}

Status write(const std::string& path, const std::string& option, const std::string& text) {
  if (path.empty()) return {};
  auto file = ReportFile::create(path, option);
  if (!file) return forward_error(std::move(file));
  return file->commit(text);
}

Status write_files(const JointOptions& options, const JointPlans& plans) {
  const NetworkPlans& first = plans.networks.front();
  if (!options.output_path.empty()) {
    const plan::PlanFile file{.plan = first.chosen->plan,
                              .threads = options.threads,
                              .machine = first.machine,
                              .budget_bytes = first.chosen->budget_bytes};
    const std::string text = plan::plan_text(file, first.network, first.cfg_path);
    if (Status done = write(options.output_path, "--output", text); !done) return done;
  }
  if (!options.json_path.empty()) {
    Status done = write(options.json_path, "--json", joint_plans_json(plans));
    if (!done) return done;
  }
  if (options.html_path.empty()) return {};
  return write(options.html_path, "--html", joint_plans_html(plans));
}

Result<JointPlanner> planner_by(const plan::Profile& profile, const Network& network,
                                const JointOptions& options, const infer::ReadingCosts& reading) {
  return JointPlanner::make(network, profile,
                            {.read_bytes_per_s = reading.bytes_per_s,
                             .read_latency_ns = reading.latency_ns,
                             .taken = reading.taken,
                             .threads = options.threads},
                            SearchInTime(options.time_limit, searching).limit());
}

/// The ways that a profile would choose: for a single network with a budget those of its plan,
/// otherwise those of the front.
Result<plan::Ways> ways_by(const plan::Profile& profile, const Network& network,
                           const JointOptions& options, const infer::ReadingCosts& reading) {
  auto planner = planner_by(profile, network, options, reading);
  if (!planner) return forward_error(std::move(planner));
  if (!needs_fronts(options)) {
    auto plan = plan_in_time(*planner, options.loads->budget_bytes, options);
    if (!plan) return forward_error(std::move(plan));
    return plan::Ways{std::move(plan->choices)};
  }
  NetworkPlans plans;
  if (Status done = plan_front(*planner, options, plans); !done) {
    return forward_error(std::move(done));
  }
  plan::Ways ways;
  for (BudgetedPlan& it : plans.front) ways.push_back(std::move(it.plan.choices));
  return ways;
}

/// If the disk is measured, the machine's present pace is measured, too.
Status make_planner(const JointOptions& options, const infer::ReadingCosts& reading,
                    PlannedTogether& it) {
  const auto pace = options.weights_path.empty() ? plan::Pace::as_first_measured : plan::Pace::now;
  auto profile = measure_profile(it.network, options.threads, pace, [&](const auto& known) {
    return ways_by(known, it.network, options, reading);
  });
  if (!profile) return forward_error(std::move(profile));
  it.profile = std::move(*profile);
  auto planner = planner_by(it.profile, it.network, options, reading);
  if (!planner) return forward_error(std::move(planner));
  it.planner.emplace(std::move(*planner));
  return {};
}

Result<JointPlans> make_plans(const JointOptions& options) {
  JointPlans plans{.reading = {.bytes_per_s = options.disk_gb_per_s * 1e9,
                               .latency_ns = plan::JointSettings{}.read_latency_ns,
                               .taken = {}}};
  if (options.loads) plans.budget_bytes = options.loads->budget_bytes;
  std::deque<PlannedTogether> planned;
  for (const std::string& cfg_path : options.cfg_paths) {
    auto network = network::read_network(cfg_path, options.resolution);
    if (!network) return forward_error(std::move(network));
    PlannedTogether& it = planned.emplace_back();
    it.network = std::move(*network);
    if (&it == &planned.front() && !options.weights_path.empty()) {
      auto reading = infer::measure_reading(it.network, options.weights_path, options.threads);
      if (!reading) return forward_error(std::move(reading));
      plans.reading = *reading;
    }
    if (Status done = make_planner(options, plans.reading, it); !done) {
      return forward_error(std::move(done));
    }
    NetworkPlans& of_network =
        plans.networks.emplace_back(NetworkPlans{.cfg_path = cfg_path,
                                                 .network = it.network,
                                                 .machine = it.profile.machine,
                                                 .least_bytes = it.planner->least_bytes(),
                                                 .forced_by = it.planner->forced_by()});
    if (!needs_fronts(options)) continue;
    if (Status done = plan_front(*it.planner, options, of_network); !done) {
      return forward_error(std::move(done));
    }
  }
  if (!options.loads) return plans;
  budget::Shares shares = {options.loads->budget_bytes};
  if (plans.networks.size() > 1) {
    auto divided = divide(plans, *options.loads);
    if (!divided) return forward_error(std::move(divided));
    shares = std::move(*divided);
  }
  for (size_t i = 0; i < shares.size(); ++i) {
    Status done = choose(*planned[i].planner, shares[i], options, plans.networks[i]);
    if (!done) return forward_error(std::move(done));
  }
  return plans;
}

}  // namespace

std::vector<Option> plan_joint_options() {
  return {{'b', "budget", "SIZE", "memory for windows, activations and workspace of all networks"},
          urgency_option(),
          period_option(),
          goal_option(),
          {0, "weights", "FILE",
           "weights of the first network: measure the speed of reading them, the time\n"
           "that it takes from the processors, and the pace of the processors;\n"
           "with --budget, also try the plan"},
          {0, "disk", "GB/S", "the speed of reading weights, if it is not measured (2)"},
          resolution_option(),
          {0, "threads", "N", "threads that compute (one per processor)"},
          time_limit_option(),
          {0, "explain", "", "print where bytes and time go, and what 10 MiB more would buy"},
          {'o', "output", "FILE", "write the plan, for `model pack --plan` and `infer --plan`"},
          {0, "json", "FILE", "write all figures to FILE"},
          {0, "html", "FILE", "write a page with the fronts as plots to FILE"}};
}

int plan_joint_command(const Arguments& arguments) {
  const auto options = read_joint_options(arguments);
  if (!options) return misuse(options.error());
  const auto plans = make_plans(*options);
  if (!plans) return failure(plans.error());
  print(stdout, joint_plans_text(*plans, options->is_explained));
  if (std::ranges::any_of(plans->networks, &NetworkPlans::is_cut_short)) {
    print(stdout, time_was_over);
  }
  const Status written = write_files(*options, *plans);
  return written ? exit_success : failure(written.error());
}

}  // namespace weightpager::tools
