// `weightpager plan budgets`: divides one memory budget for the weights of several networks, by
// SwapNet's equation and jointly, and checks whether the plans hold when all networks read from one
// disk.
//
// Nothing is run. A delay model says what a layer costs: this machine's, if somebody has measured
// it
// (`bench blocks --json`), otherwise one for two present-day processors.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/median.h"
#include "pager/base/units.h"
#include "runtime/budget/lookup_table.h"
#include "runtime/budget/shared_disk.h"
#include "runtime/budget/shares.h"
#include "runtime/budget/window_plans.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/network/parser.h"
#include "runtime/serve/demand.h"
#include "tools/arguments/by_argument.h"
#include "tools/arguments/network_loads.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/plan/block_budgets.h"
#include "tools/commands/plan/plan.h"
#include "tools/formats/delay_model_file.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/search_in_time.h"

namespace weightpager::tools {
namespace {

using budget::Claim;
using budget::DelayModel;
using budget::Shares;
using budget::StepFunction;
using budget::WindowPlans;
using network::Network;

constexpr int budgets_schema_version = 2;
/// Inferences of each network on the shared disk. The first one reads the pinned weights, and does
/// not count.
constexpr uint32_t inferences_simulated = 9;
const char* const budgets_example = "weightpager plan budgets yolov3.cfg vgg19.cfg --budget 500MiB";

}  // namespace

Command plan_budgets_description() {
  return {
      .name = "weightpager plan budgets",
      .purpose =
          "Divides one budget of memory for weights among several Darknet networks in two\n"
          "ways: by SwapNet's equation (1), and so that the figure of --goal is as small as\n"
          "possible. Runs nothing.\n",
      .usage = "  weightpager plan budgets NET.cfg… --budget SIZE [OPTIONS]\n",
      .options = {{0, "budget", "SIZE", "memory for the weights of all networks: 843MiB"},
                  urgency_option(),
                  period_option(),
                  goal_option(),
                  by_option(),
                  resolution_option(),
                  blocks_option(),
                  {0, "profile", "FILE", "measured costs, from `bench blocks --json FILE`"},
                  time_limit_option(),
                  {0, "json", "FILE", "write all figures to FILE"}},
      .examples =
          "  weightpager model make --net yolov3 -o nets\n"
          "  weightpager model make --net vgg19 -o nets\n"
          "  weightpager plan budgets nets/yolov3.cfg nets/vgg19.cfg --budget 500MiB\n",
      .exit_status = "  0 planned, 1 the budget is too small or a file cannot be read, 2 misuse\n"};
}

namespace {

struct BudgetsOptions {
  std::vector<std::string> cfg_paths;
  std::optional<network::Resolution> resolution;
  NetworkLoads loads;
  bool is_by_blocks = false;
  std::vector<uint32_t> blocks;  // by network
  TimeLimit time_limit;
  std::string profile_path;
  std::string json_path;
};

Result<BudgetsOptions> read_budgets_options(const Arguments& arguments) {
  BudgetsOptions options = {.cfg_paths = arguments.operands(),
                            .profile_path = arguments.value("profile").value_or(""),
                            .json_path = arguments.value("json").value_or("")};
  if (options.cfg_paths.empty()) return fail("expected one .cfg or more", budgets_example);
  auto loads = parse_network_loads(arguments, budgets_example);
  if (!loads) return forward_error(std::move(loads));
  options.loads = std::move(*loads);
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return tl::make_unexpected(resolution.error());
  options.resolution = *resolution;
  const auto is_by_blocks = parse_is_by_blocks(arguments);
  if (!is_by_blocks) return tl::make_unexpected(is_by_blocks.error());
  options.is_by_blocks = *is_by_blocks;
  auto blocks = parse_blocks(arguments, options.is_by_blocks);
  if (!blocks) return forward_error(std::move(blocks));
  options.blocks = std::move(*blocks);
  const auto time_limit = parse_time_limit(arguments);
  if (!time_limit) return tl::make_unexpected(time_limit.error());
  options.time_limit = *time_limit;
  return options;
}

/// A network, and what it can do with its share.
struct PlannedNetwork {
  serve::NetworkDemand demand;
  uint32_t blocks = budget::any_number_of_blocks;
  budget::BlockedNetwork costs;
  uint64_t period_ns = 0;
};

/// The costs of the layers if each is read as a block of its own.
std::vector<pipeline::UnitCosts> layer_costs_of(const budget::BlockedNetwork& costs) {
  std::vector<pipeline::UnitCosts> layers;
  for (const budget::LayerCosts& layer : costs.layers) {
    const uint64_t block_ns = layer.size_bytes > 0 ? costs.per_block.read_ns : 0;
    layers.push_back({.size_bytes = layer.size_bytes,
                      .read_ns = layer.read_ns + block_ns,
                      .kernel_ns = layer.kernel_ns});
  }
  return layers;
}

Result<PlannedNetwork> plan_network(size_t index, const DelayModel& model,
                                    const BudgetsOptions& options) {
  const std::string& cfg_path = options.cfg_paths[index];
  const auto network = network::read_network(cfg_path, options.resolution);
  if (!network) return tl::make_unexpected(network.error());
  if (network->folded_bytes() == 0) {
    return fail(cfg_path + ": has no weights, so there is no budget to plan",
                "leave it out: it takes none of the memory");
  }
  const std::string name = std::filesystem::path(cfg_path).stem();
  budget::BlockedNetwork costs = infer::modelled_costs(*network, model);
  if (const Status possible = check_number_of_blocks(*network, options.blocks[index]); !possible)
    return fail(fmt::format("{}: {}", name, possible.error().message), possible.error().hint);
  auto demand = options.is_by_blocks
                    ? serve::demand_in_blocks(
                          *network, name, costs,
                          SearchInTime(options.time_limit, "searching for blocks").limit(),
                          options.blocks[index])
                    : serve::demand_of(
                          *network, name, {}, layer_costs_of(costs),
                          {.read_ns_per_tile = costs.per_block.read_ns,
                           .kernel_ns_per_tile = static_cast<uint64_t>(model.kernel_ns_per_layer)});
  return PlannedNetwork{
      .demand = std::move(demand), .blocks = options.blocks[index], .costs = std::move(costs)};
}

Result<std::vector<PlannedNetwork>> plan_networks(const BudgetsOptions& options,
                                                  const DelayModel& model) {
  std::vector<PlannedNetwork> networks;
  for (size_t i = 0; i < options.cfg_paths.size(); ++i) {
    auto network = plan_network(i, model, options);
    if (!network) return forward_error(std::move(network));
    network->period_ns = options.loads.periods_ns[i];
    network->demand.claim.urgency = options.loads.urgencies[i];
    network->demand.claim.weight =
        serve::delay_weight(options.loads.goal, network->demand.claim.urgency, network->period_ns,
                            network->demand.claim.latency_ns);
    networks.push_back(std::move(*network));
  }
  return networks;
}

/// One way to divide the budget, and the delays that follow.
struct Division {
  Shares shares;
  std::vector<uint64_t> alone_ns;
  /// The median delay with all networks on one disk, and the number of late inferences; both are
  /// empty for blocks.
  std::vector<uint64_t> shared_ns;
  std::vector<uint32_t> late;
  /// The delays of SwapNet's own cuts. Empty for windows; nullopt for a network that has no table
  /// in the paper, or whose table has no row that fits.
  std::vector<std::optional<uint64_t>> table_ns;
};

uint64_t median_after_first(std::vector<uint64_t> delays_ns) {
  delays_ns.erase(delays_ns.begin());
  return median(std::move(delays_ns));
}

void simulate_together(const std::vector<PlannedNetwork>& networks, Division& division) {
  std::vector<budget::SharingNetwork> sharing;
  std::vector<uint64_t> periods_ns;
  std::vector<double> urgencies;
  for (size_t i = 0; i < networks.size(); ++i) {
    const PlannedNetwork& network = networks[i];
    // A network without a period is due after the time that it takes alone; an urgent one is due
    // sooner.
    const auto wanted_ns = static_cast<double>(division.alone_ns[i]) / network.demand.claim.urgency;
    const uint64_t deadline_ns =
        network.period_ns > 0 ? network.period_ns : static_cast<uint64_t>(wanted_ns);
    sharing.push_back(budget::sharing_network(network.demand.windows->choice(division.shares[i]),
                                              network.period_ns, deadline_ns));
    periods_ns.push_back(network.period_ns);
    urgencies.push_back(network.demand.claim.urgency);
  }
  const budget::SharedDiskTimes times = budget::simulate_shared_disk(
      std::move(sharing), {.arbiter = budget::arbiter_settings(periods_ns, urgencies),
                           .inferences_min = inferences_simulated});
  for (const budget::NetworkTimes& it : times.networks) {
    division.shared_ns.push_back(median_after_first(it.delays_ns));
    division.late.push_back(it.late);
  }
}

Division divide(const std::vector<PlannedNetwork>& networks, Shares shares) {
  Division division = {.shares = std::move(shares)};
  for (size_t i = 0; i < networks.size(); ++i) {
    division.alone_ns.push_back(networks[i].demand.delay_steps.delay_ns(division.shares[i]));
  }
  if (networks.front().demand.windows) {
    simulate_together(networks, division);
    return division;
  }
  for (size_t i = 0; i < networks.size(); ++i) {
    const auto plan =
        budget::plan_by_table(networks[i].costs, division.shares[i], networks[i].blocks);
    division.table_ns.push_back(plan ? std::optional(plan->delay_ns) : std::nullopt);
  }
  return division;
}

struct BudgetPlan {
  std::vector<PlannedNetwork> networks;
  uint64_t least_bytes = 0;
  Division equation;
  Division joint;
  /// The figure that the joint plan minimises: by goal, the largest delay times urgency, or the
  /// mean of these.
  double joint_goal = 0;
};

Result<BudgetPlan> make_plan(const BudgetsOptions& options, const DelayModel& model) {
  auto networks = plan_networks(options, model);
  if (!networks) return forward_error(std::move(networks));
  std::vector<Claim> claims;
  std::vector<StepFunction> step_functions;
  for (const PlannedNetwork& it : *networks) {
    claims.push_back(it.demand.claim);
    step_functions.push_back(it.demand.delay_steps);
  }
  auto equation = budget::share_by_score(claims, options.loads.budget_bytes);
  if (!equation) return forward_error(std::move(equation));
  auto joint = budget::share_jointly(claims, step_functions, options.loads.budget_bytes,
                                     serve::goal_of_delays(options.loads.goal));
  if (!joint) return forward_error(std::move(joint));
  BudgetPlan plan = {.least_bytes = budget::least_budget_bytes(claims),
                     .equation = divide(*networks, std::move(*equation)),
                     .joint = divide(*networks, std::move(joint->shares)),
                     .joint_goal = static_cast<double>(joint->target_ns) / 1e6};
  if (options.loads.goal == serve::SharingGoal::mean_slowdown) {
    plan.joint_goal /= static_cast<double>(networks->size());
  }
  plan.networks = std::move(*networks);
  return plan;
}

std::string division_columns(const Division& division, size_t network) {
  std::string last = "-";
  if (!division.shared_ns.empty()) {
    last = fmt::format("{:.1f}", milliseconds(division.shared_ns[network]));
  } else if (division.table_ns[network]) {
    last = fmt::format("{:.1f}", milliseconds(*division.table_ns[network]));
  }
  return fmt::format(" {:>9.2f} {:>8.1f} {:>8}", mebibytes(division.shares[network]),
                     milliseconds(division.alone_ns[network]), last);
}

/// The blocks that a network has with its share.
const budget::BlockEnds& ends_of(const PlannedNetwork& network, uint64_t share_bytes) {
  return network.demand.ends[network.demand.delay_steps.step_number(share_bytes)];
}

void print_plan(const BudgetsOptions& options, const BudgetPlan& plan) {
  uint64_t all_bytes = 0;
  size_t name_width = 12;
  for (const PlannedNetwork& it : plan.networks) {
    all_bytes += it.demand.claim.model_bytes;
    name_width = std::max(name_width, it.demand.claim.name.size());
  }
  fmt::print("{:.1f} MiB of weights in {:.1f}; the least budget is {:.2f} MiB\n",
             mebibytes(all_bytes), mebibytes(options.loads.budget_bytes),
             mebibytes(plan.least_bytes));
  fmt::print("MiB; ms alone on the disk, and {}\n\n",
             options.is_by_blocks ? "with the cuts of SwapNet's table (-: it has none)"
                                  : "with the others on it");
  fmt::print("{:<{}} {:>8} {:>7} {:>8} | {:^27} | {:^27}\n", "", name_width, "", "", "all in",
             "equation (1)", "joint");
  const char* const last = options.is_by_blocks ? "table" : "shared";
  fmt::print("{:<{}} {:>8} {:>7} {:>8} |{:>10} {:>8} {:>8} |{:>10} {:>8} {:>8}\n", "network",
             name_width, "weights", "least", "memory", "budget", "alone", last, "budget", "alone",
             last);
  for (size_t i = 0; i < plan.networks.size(); ++i) {
    const Claim& claim = plan.networks[i].demand.claim;
    fmt::print("{:<{}} {:>8.2f} {:>7.2f} {:>8.1f} |{} |{}\n", claim.name, name_width,
               mebibytes(claim.model_bytes), mebibytes(claim.least_bytes),
               milliseconds(claim.latency_ns), division_columns(plan.equation, i),
               division_columns(plan.joint, i));
  }
  for (const PlannedNetwork& it : plan.networks) {
    if (it.demand.exact_from_bytes && *it.demand.exact_from_bytes <= it.demand.claim.least_bytes)
      continue;
    const std::string where =
        it.demand.exact_from_bytes
            ? fmt::format("below {:.2f} MiB", mebibytes(*it.demand.exact_from_bytes))
            : "at any budget";
    fmt::print(
        "{}: --time-limit was over; {} there may be faster blocks: these take up to {:.1f} % "
        "longer than the least that is proved\n",
        it.demand.claim.name, where, 100 * it.demand.excess_max);
  }
  if (!options.is_by_blocks) return;
  fmt::print("\nBlocks of the joint shares; those of equation (1) are in --json.\n");
  for (size_t i = 0; i < plan.networks.size(); ++i) {
    const PlannedNetwork& it = plan.networks[i];
    fmt::print("{}",
               blocks_text(it.demand.claim.name, it.costs, ends_of(it, plan.joint.shares[i])));
  }
}

nlohmann::ordered_json to_json(const PlannedNetwork& network, const Division& division, size_t i) {
  nlohmann::ordered_json json = {{"budget_bytes", division.shares[i]},
                                 {"delay_ns", division.alone_ns[i]}};
  if (division.shared_ns.empty()) {
    if (division.table_ns[i]) json["table_delay_ns"] = *division.table_ns[i];
    add_blocks(json, network.costs, ends_of(network, division.shares[i]));
    return json;
  }
  json["shared_delay_ns"] = division.shared_ns[i];
  json["late"] = division.late[i];
  return json;
}

std::string to_json(const BudgetsOptions& options, const BudgetPlan& plan) {
  nlohmann::ordered_json json = {{"schema_version", budgets_schema_version},
                                 {"plan", "budgets"},
                                 {"by", options.is_by_blocks ? "blocks" : "window"},
                                 {"budget_bytes", options.loads.budget_bytes},
                                 {"least_budget_bytes", plan.least_bytes},
                                 {"goal", options.loads.goal_word},
                                 {"joint_goal", plan.joint_goal}};
  for (size_t i = 0; i < plan.networks.size(); ++i) {
    const PlannedNetwork& it = plan.networks[i];
    nlohmann::ordered_json network = {{"name", it.demand.claim.name},
                                      {"cfg", options.cfg_paths[i]},
                                      {"weights_bytes", it.demand.claim.model_bytes},
                                      {"least_bytes", it.demand.claim.least_bytes},
                                      {"forced_by", it.demand.claim.forced_by},
                                      {"in_memory_ns", it.demand.claim.latency_ns},
                                      {"urgency", options.loads.urgencies[i]},
                                      {"period_ns", it.period_ns},
                                      {"exact_from_bytes", nullptr},
                                      {"excess_max", it.demand.excess_max},
                                      {"equation", to_json(it, plan.equation, i)},
                                      {"joint", to_json(it, plan.joint, i)}};
    if (it.demand.exact_from_bytes) network["exact_from_bytes"] = *it.demand.exact_from_bytes;
    for (const budget::Step& step : it.demand.delay_steps.steps()) {
      network["steps"].push_back(
          {{"budget_bytes", step.budget_bytes}, {"delay_ns", step.delay_ns}});
    }
    json["networks"].push_back(std::move(network));
  }
  return json.dump(1) + "\n";
}

int run_budgets(const BudgetsOptions& options) {
  const auto model = read_delay_model(options.profile_path);
  if (!model) return failure(model.error());
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  const auto plan = make_plan(options, *model);
  if (!plan) return failure(plan.error());
  print_plan(options, *plan);
  if (*report) {
    const Status written = (*report)->commit(to_json(options, *plan));
    if (!written) return failure(written.error());
  }
  return exit_success;
}

}  // namespace

int plan_budgets_command(const std::vector<std::string>& words) {
  return carry_out(plan_budgets_description(), words, read_budgets_options, run_budgets);
}

}  // namespace weightpager::tools
