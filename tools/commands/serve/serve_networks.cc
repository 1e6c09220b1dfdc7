// See serve_networks.h. Networks run until a signal comes or the time is up. Their results are
// thrown away; the time of each inference is kept. The budget changes by the clock (`--then`) and
// with the memory cgroup's limit.
#include "tools/commands/serve/serve_networks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/log.h"
#include "pager/base/memory_limit.h"
#include "pager/base/units.h"
#include "pager/control/control_socket.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/network/parser.h"
#include "runtime/plan/plan_file.h"
#include "runtime/serve/serving.h"
#include "tools/arguments/by_argument.h"
#include "tools/arguments/http_option.h"
#include "tools/arguments/network_loads.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/live/network_answers.h"
#include "tools/probes/memory_beside.h"
#include "tools/report/report_file.h"
#include "tools/terminal/ending_signals.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using serve::NetworkRequest;
using serve::NetworkState;
using serve::ServedInference;
using serve::Serving;
using serve::ServingState;
using telemetry::monotonic_ns;

constexpr int serve_networks_schema_version = 1;
constexpr uint64_t ms = 1'000'000;
constexpr uint64_t second = 1'000 * ms;
/// The time between two looks at the clock. A look takes a moment from the threads that compute.
/// The second value holds while windows still follow a new budget.
constexpr uint64_t look_ns = 50 * ms;
constexpr uint64_t close_look_ns = 2 * ms;
constexpr uint64_t limit_look_ns = 100 * ms;
const char* const serve_networks_example = "weightpager serve yolov3.cfg vgg19.cfg --budget 500MiB";

}  // namespace

Command serve_networks_description() {
  return {
      .name = "weightpager serve",
      .purpose =
          "Runs several Darknet networks side by side in one budget of memory, each in a\n"
          "window of its own, until SIGINT, and says how long their inferences took.\n",
      .usage =
          "  weightpager serve NET.cfg… --budget SIZE [OPTIONS]\n"
          "The weights are NET.packed, or else NET.weights, beside each NET.cfg.\n",
      .options = {{0, "budget", "SIZE",
                   "memory for windows, activations and scratch memory of all\n"
                   "networks; less if the memory cgroup's limit is lower"},
                  urgency_option(),
                  period_option(),
                  goal_option(),
                  by_option(),
                  {0, "then", "S=SIZE,…", "other budgets from these seconds on: 10=500MiB,20=1GiB"},
                  {0, "seconds", "N", "end after N seconds"},
                  {0, "plans", "FILE,…",
                   "by network: compute its convolutions as `weightpager plan -o FILE`\n"
                   "has chosen, from NET.planned, which `model pack --plan` has packed\n"
                   "(windows follow the budget all the same)"},
                  {0, "threads", "N", "threads for each network (processors divided by networks)"},
                  {0, "json", "FILE", "write every inference to FILE at the end"},
                  http_option(),
                  {'q', "quiet", "", "print only errors"}},
      .examples =
          "  weightpager model make --net yolov3 -o nets\n"
          "  weightpager model make --net vgg19 -o nets\n"
          "  weightpager serve nets/yolov3.cfg nets/vgg19.cfg --budget 500MiB --seconds 20\n",
      .exit_status =
          "  0 ended by a signal or the time, 1 the budget is too small or a network failed, 2 "
          "misuse\n"};
}

namespace {

/// A budget that holds from a time after the start on.
struct BudgetStep {
  uint64_t after_ns = 0;
  uint64_t budget_bytes = 0;
};

struct NetworksOptions {
  std::vector<std::string> cfg_paths;
  std::vector<BudgetStep> steps;
  NetworkLoads loads;
  bool is_by_blocks = false;
  std::optional<uint64_t> duration_ns;
  int threads = 1;
  std::vector<std::string> plan_paths;  // one for each network, or empty
  std::string json_path;
  std::optional<uint16_t> http_port;
  bool is_quiet = false;
};

std::vector<int> processors_allowed() {
  cpu_set_t allowed;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  return processors;
}

Result<std::vector<BudgetStep>> parse_steps(const std::string& text) {
  std::vector<BudgetStep> steps;
  for (const std::string& word : split_at(text, ',')) {
    const size_t equals = word.find('=');
    const auto wrong = [&word] {
      return fail(fmt::format("--then {}: expected SECONDS=SIZE", word),
                  "a budget of 500MiB from the tenth second on: --then 10=500MiB");
    };
    if (equals == std::string::npos) return wrong();
    const auto after_s = parse_number(word.substr(0, equals), "--then", {1e-3, 1e6});
    if (!after_s) return wrong();
    const auto budget = parse_bytes(word.substr(equals + 1), "--then");
    if (!budget) return tl::make_unexpected(budget.error());
    steps.push_back({static_cast<uint64_t>(*after_s * 1e9), *budget});
    const bool rises =
        steps.size() == 1 || steps[steps.size() - 2].after_ns < steps.back().after_ns;
    if (!rises) return fail(fmt::format("--then {}: seconds must rise", text));
  }
  return steps;
}

Result<NetworksOptions> read_serve_networks_options(const Arguments& arguments) {
  if (arguments.operands().empty()) return fail("no network to serve", serve_networks_example);
  NetworksOptions options = {.cfg_paths = arguments.operands(),
                             .json_path = arguments.value("json").value_or(""),
                             .is_quiet = arguments.has("quiet")};
  auto loads = parse_network_loads(arguments, serve_networks_example);
  if (!loads) return forward_error(std::move(loads));
  options.loads = std::move(*loads);
  const auto is_by_blocks = parse_is_by_blocks(arguments);
  if (!is_by_blocks) return tl::make_unexpected(is_by_blocks.error());
  options.is_by_blocks = *is_by_blocks;
  if (const auto text = arguments.value("then")) {
    auto steps = parse_steps(*text);
    if (!steps) return forward_error(std::move(steps));
    options.steps = std::move(*steps);
  }
  if (const auto text = arguments.value("seconds")) {
    const auto seconds = parse_count(*text, "--seconds", 1'000'000);
    if (!seconds) return tl::make_unexpected(seconds.error());
    options.duration_ns = *seconds * second;
  }
  const auto http_port = parse_http_port(arguments);
  if (!http_port) return tl::make_unexpected(http_port.error());
  options.http_port = *http_port;
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  if (const auto text = arguments.value("plans")) {
    options.plan_paths = split_at(*text, ',');
    if (options.plan_paths.size() != options.cfg_paths.size()) {
      return fail(fmt::format("--plans {}: expected a file for each of {} networks, found {}",
                              *text, options.cfg_paths.size(), options.plan_paths.size()));
    }
    if (arguments.has("threads")) {
      return fail("--threads: each plan has its own number", "leave it out, or make other plans");
    }
  }
  const auto networks = static_cast<int>(options.cfg_paths.size());
  options.threads = arguments.has("threads") ? *threads : std::max(*threads / networks, 1);
  return options;
}

Result<std::string> weights_beside(const std::string& cfg_path, bool is_planned) {
  namespace fs = std::filesystem;
  const auto beside = [&](const char* ending) {
    return fs::path(cfg_path).replace_extension(ending);
  };
  if (is_planned) return beside(".planned").string();
  for (const char* const ending : {".packed", ".weights"}) {
    std::error_code ignored;
    if (fs::exists(beside(ending), ignored)) return beside(ending).string();
  }
  const fs::path stem = fs::path(cfg_path).replace_extension();
  return fail(fmt::format("{}: neither {}.packed nor {}.weights is there", cfg_path, stem.string(),
                          stem.string()),
              "put the weights beside the .cfg, under its name");
}

/// If all networks fit on processors of their own, they get them; otherwise the system decides.
void give_processors(std::vector<NetworkRequest>& requests) {
  const std::vector<int> processors = processors_allowed();
  size_t wanted = 0;
  for (const NetworkRequest& it : requests) wanted += static_cast<size_t>(it.threads);
  if (wanted > processors.size()) return;
  auto next = processors.begin();
  for (NetworkRequest& it : requests) {
    it.processors.assign(next, next + it.threads);
    next += it.threads;
  }
}

Result<std::vector<NetworkRequest>> make_requests(const NetworksOptions& options) {
  std::vector<NetworkRequest> requests;
  for (size_t i = 0; i < options.cfg_paths.size(); ++i) {
    auto network = network::read_network(options.cfg_paths[i]);
    if (!network) return forward_error(std::move(network));
    const bool is_planned = !options.plan_paths.empty();
    auto weights = weights_beside(options.cfg_paths[i], is_planned);
    if (!weights) return forward_error(std::move(weights));
    plan::PlanFile plan{.threads = options.threads};
    if (is_planned) {
      auto file = plan::read_plan(options.plan_paths[i], *network);
      if (!file) return forward_error(std::move(file));
      plan = std::move(*file);
    }
    requests.push_back({.name = std::filesystem::path(options.cfg_paths[i]).stem(),
                        .network = std::move(*network),
                        .weights_path = std::move(*weights),
                        .choices = std::move(plan.plan.choices),
                        .urgency = options.loads.urgencies[i],
                        .period_ns = options.loads.periods_ns[i],
                        .threads = plan.threads});
  }
  give_processors(requests);
  return requests;
}

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size_pages = 0, resident_pages = 0;
  file >> size_pages >> resident_pages;
  return resident_pages * os_page_bytes;
}

/// The present bytes of windows, activations and scratch memory.
uint64_t counted_bytes(const ServingState& state) {
  uint64_t bytes = 0;
  for (const NetworkState& it : state.networks) bytes += it.fixed_bytes + it.held_bytes;
  return bytes;
}

/// So much stays free below the cgroup's limit, so that the kernel need not reclaim memory.
constexpr uint64_t limit_slack_bytes = 16 * MiB;
/// The process's other memory varies a little. Budgets in steps of this size are not divided anew
/// for that.
constexpr uint64_t limit_step_bytes = 4 * MiB;
/// A guess for compiled kernels, threads and the networks' descriptions, until their size is known.
constexpr uint64_t other_bytes_expected = 64 * MiB;

/// The budget that is asked for, or the part of it that the memory cgroup leaves.
uint64_t budget_within_limit(uint64_t asked_bytes, uint64_t limit_bytes, uint64_t other_bytes) {
  const uint64_t taken_bytes = std::min(limit_bytes, other_bytes + limit_slack_bytes);
  const uint64_t left_bytes = limit_bytes - taken_bytes;
  return asked_bytes <= left_bytes ? asked_bytes : round_down(left_bytes, limit_step_bytes);
}

/// This process's resident memory without windows, activations and scratch memory.
uint64_t other_bytes(const ServingState& state) {
  const uint64_t all_bytes = resident_bytes();
  return all_bytes - std::min(all_bytes, counted_bytes(state));
}

/// A change of the budget, and how soon the windows followed it.
struct BudgetChange {
  uint64_t at_ns = 0;  // since the start
  uint64_t budget_bytes = 0;
  uint64_t planning_ns = 0;  // 0 for the first budget, which was planned before the start
  std::vector<uint64_t> shares_bytes;
  /// The time until every network had its new window; nullopt if the end came first.
  std::optional<uint64_t> followed_ns;
};

/// Runs the networks until the end.
class Session {
 public:
  Session(const NetworksOptions& options, Serving& serving)
      : options_(options), serving_(serving), started_ns_(monotonic_ns()) {}

  Status run(const OwnedFd& signals) {
    note_change(serving_.state().budget_bytes, 0);
    for (;;) {
      const uint64_t elapsed_ns = monotonic_ns() - started_ns_;
      if (options_.duration_ns && elapsed_ns >= *options_.duration_ns) return {};
      if (pollfd it = {signals.get(), POLLIN, 0}; poll(&it, 1, 0) > 0) return {};
      look_whether_windows_followed();
      take_steps(elapsed_ns);
      if (elapsed_ns >= next_limit_look_ns_) {
        next_limit_look_ns_ = elapsed_ns + limit_look_ns;
        if (Status set = follow_limit(); !set) return set;
      }
      const uint64_t pause_ns = changes_.back().followed_ns ? look_ns : close_look_ns;
      if (Status well = serving_.wait(pause_ns); !well) return well;
    }
  }

  std::atomic<uint64_t>& wanted_bytes() { return wanted_bytes_; }
  const std::vector<BudgetChange>& changes() const { return changes_; }
  uint64_t started_ns() const { return started_ns_; }

 private:
  void take_steps(uint64_t elapsed_ns) {
    while (next_step_ < options_.steps.size() &&
           options_.steps[next_step_].after_ns <= elapsed_ns) {
      wanted_bytes_ = options_.steps[next_step_++].budget_bytes;
    }
    if (wanted_bytes_ != followed_bytes_) next_limit_look_ns_ = elapsed_ns;
  }

  // The budget never falls below the least that the networks need. If the limit is lower, the
  // kernel has to find memory elsewhere.
  Status follow_limit() {
    const ServingState state = serving_.state();
    other_bytes_ = std::max(other_bytes_, other_bytes(state));
    followed_bytes_ = wanted_bytes_;
    const uint64_t budget_bytes =
        std::max(budget_within_limit(followed_bytes_, memory_limit().bytes, other_bytes_),
                 state.least_budget_bytes);
    if (budget_bytes == changes_.back().budget_bytes) return {};
    const auto planned = serving_.set_budget(budget_bytes);
    if (!planned) return tl::make_unexpected(planned.error());
    note_change(budget_bytes, *planned);
    return {};
  }

  void note_change(uint64_t budget_bytes, uint64_t planning_ns) {
    BudgetChange change = {.at_ns = monotonic_ns() - started_ns_,
                           .budget_bytes = budget_bytes,
                           .planning_ns = planning_ns};
    const ServingState state = serving_.state();
    for (const NetworkState& it : state.networks) change.shares_bytes.push_back(it.share_bytes);
    changes_.push_back(std::move(change));
  }

  void look_whether_windows_followed() {
    BudgetChange& change = changes_.back();
    if (change.followed_ns) return;
    const ServingState state = serving_.state();
    for (const NetworkState& it : state.networks) {
      if (it.held_bytes != it.share_bytes) return;
    }
    change.followed_ns = monotonic_ns() - started_ns_ - change.at_ns;
    if (options_.is_quiet) return;
    std::string shares;
    for (size_t i = 0; i < state.networks.size(); ++i) {
      shares += fmt::format("{}{} {:.1f}", i == 0 ? "" : ", ", state.networks[i].name,
                            mebibytes(change.shares_bytes[i]));
    }
    const std::string planned =
        change.planning_ns == 0
            ? ""
            : fmt::format("planned in {:.2f} ms, ", milliseconds(change.planning_ns));
    print(
        stderr,
        fmt::format("weightpager: {:.1f} s: {:.1f} MiB, windows: {} MiB; {}there after {:.0f} ms\n",
                    static_cast<double>(change.at_ns) / 1e9, mebibytes(change.budget_bytes), shares,
                    planned, milliseconds(*change.followed_ns)));
  }

  const NetworksOptions& options_;
  Serving& serving_;
  const uint64_t started_ns_;
  // The budget that the clock or the control socket asks for.
  std::atomic<uint64_t> wanted_bytes_{options_.loads.budget_bytes};
  uint64_t followed_bytes_ = options_.loads.budget_bytes;
  uint64_t other_bytes_ = other_bytes_expected;  // the most so far, as windows fill one by one
  uint64_t next_limit_look_ns_ = 0;
  size_t next_step_ = 0;
  std::vector<BudgetChange> changes_;
};

/// A quantile of sorted values.
uint64_t quantile(const std::vector<uint64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

std::vector<uint64_t> sorted_delays(const std::vector<ServedInference>& inferences) {
  std::vector<uint64_t> delays_ns;
  for (const ServedInference& it : inferences) delays_ns.push_back(it.delay_ns());
  std::sort(delays_ns.begin(), delays_ns.end());
  return delays_ns;
}

/// How many of the sorted delays exceed the period; 0 without a period.
size_t late(const std::vector<uint64_t>& delays_ns, uint64_t period_ns) {
  if (period_ns == 0) return 0;
  return static_cast<size_t>(delays_ns.end() -
                             std::upper_bound(delays_ns.begin(), delays_ns.end(), period_ns));
}

void print_summary(const Serving& serving) {
  const ServingState state = serving.state();
  fmt::print("{:<12} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>6} {:>9}\n", "", "weights",
             "window", "activ.", "inferences", "median", "95 %", "longest", "late", "read");
  fmt::print("{:<12} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>6} {:>9}\n", "network", "MiB",
             "MiB", "MiB", "", "ms", "ms", "ms", "", "MiB");
  for (uint32_t i = 0; i < state.networks.size(); ++i) {
    const NetworkState& it = state.networks[i];
    const auto delays_ns = sorted_delays(serving.inferences(i));
    fmt::print(
        "{:<12} {:>9.1f} {:>9.1f} {:>9.1f} {:>10} {:>8.1f} {:>8.1f} {:>8.1f} {:>6} {:>9.0f}\n",
        it.name, mebibytes(it.weights_bytes), mebibytes(it.held_bytes), mebibytes(it.fixed_bytes),
        it.inferences, milliseconds(quantile(delays_ns, 0.5)),
        milliseconds(quantile(delays_ns, 0.95)), milliseconds(quantile(delays_ns, 1)),
        it.period_ns == 0 ? "-" : std::to_string(late(delays_ns, it.period_ns)),
        mebibytes(it.read_bytes));
  }
  fmt::print("windows, activations and scratch memory: {:.1f} MiB at most, of {:.1f} in the end\n",
             mebibytes(state.peak_bytes), mebibytes(state.budget_bytes));
  fmt::print("beside them: {}\n", describe(memory_beside(counted_bytes(state))));
}

std::string to_json(const NetworksOptions& options, const Session& session,
                    const Serving& serving) {
  const ServingState state = serving.state();
  nlohmann::ordered_json json = {{"schema_version", serve_networks_schema_version},
                                 {"budget_bytes", options.loads.budget_bytes},
                                 {"least_budget_bytes", state.least_budget_bytes},
                                 {"peak_bytes", state.peak_bytes},
                                 {"other_bytes", other_bytes(state)},
                                 {"threads", options.threads}};
  add_fields(json, memory_beside(counted_bytes(state)));
  for (const BudgetChange& it : session.changes()) {
    nlohmann::ordered_json change = {{"at_ns", it.at_ns},
                                     {"budget_bytes", it.budget_bytes},
                                     {"planning_ns", it.planning_ns},
                                     {"shares_bytes", it.shares_bytes}};
    if (it.followed_ns) change["followed_ns"] = *it.followed_ns;
    json["changes"].push_back(std::move(change));
  }
  for (uint32_t i = 0; i < state.networks.size(); ++i) {
    const NetworkState& it = state.networks[i];
    const std::vector<ServedInference> inferences = serving.inferences(i);
    const auto delays_ns = sorted_delays(inferences);
    nlohmann::ordered_json network = {{"name", it.name},
                                      {"weights_bytes", it.weights_bytes},
                                      {"least_window_bytes", it.least_window_bytes},
                                      {"fixed_bytes", it.fixed_bytes},
                                      {"window_bytes", it.held_bytes},
                                      {"read_bytes", it.read_bytes},
                                      {"reading_ns_per_byte", it.reading_ns_per_byte},
                                      {"period_ns", it.period_ns},
                                      {"kernels_ns", it.in_memory_ns},
                                      {"planned_ns", it.planned_ns},
                                      {"median_ns", quantile(delays_ns, 0.5)},
                                      {"late", late(delays_ns, it.period_ns)},
                                      {"inferences", nlohmann::ordered_json::array()}};
    for (const ServedInference& inference : inferences) {
      network["inferences"].push_back({{"start_ns", inference.start_ns - session.started_ns()},
                                       {"delay_ns", inference.delay_ns()},
                                       {"window_bytes", inference.window_bytes}});
    }
    json["networks"].push_back(std::move(network));
  }
  return json.dump(1) + "\n";
}

int serve_networks(const NetworksOptions& options) {
  set_quiet(options.is_quiet);
  auto requests = make_requests(options);
  if (!requests) return failure(requests.error());
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  const auto signals = ending_signals();
  if (!signals) return failure(signals.error());
  if (!options.is_quiet) {
    print(stderr, fmt::format("weightpager: measuring {} network{}\n", requests->size(),
                              requests->size() == 1 ? "" : "s"));
  }
  const MemoryLimit limit = memory_limit();
  const uint64_t budget_bytes =
      budget_within_limit(options.loads.budget_bytes, limit.bytes, other_bytes_expected);
  if (budget_bytes < options.loads.budget_bytes) {
    notice(fmt::format("a budget of {} instead of {}: {} allows {}", format_size(budget_bytes),
                       format_size(options.loads.budget_bytes), limit.source,
                       format_size(limit.bytes)));
  }
  auto serving = Serving::start(std::move(*requests), {.budget_bytes = budget_bytes,
                                                       .goal = options.loads.goal,
                                                       .is_by_blocks = options.is_by_blocks});
  if (!serving) return failure(serving.error());
  for (const BudgetStep& step : options.steps) {
    const Status possible = (*serving)->check_budget(step.budget_bytes);
    if (!possible) return failure(possible.error());
  }
  Session session(options, **serving);
  NetworkAnswers answers({.kind = "networks",
                          .state = [&] { return (*serving)->state(); },
                          .change_budget = [&](uint64_t bytes) -> Result<uint64_t> {
                            const Status possible = (*serving)->check_budget(bytes);
                            if (!possible) return tl::make_unexpected(possible.error());
                            return session.wanted_bytes().exchange(bytes);
                          }});
  auto socket = control::ControlSocket::open(
      [&](std::string_view it) { return answers.answer(it); }, options.http_port);
  if (!socket) notice(socket.error().message);
  const Status ended = session.run(*signals);
  socket = nullptr;
  if (!options.is_quiet) print_summary(**serving);
  if (*report) {
    const Status written = (*report)->commit(to_json(options, session, **serving));
    if (!written) return failure(written.error());
  }
  return ended ? exit_success : failure(ended.error());
}

}  // namespace

bool names_networks(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.ends_with(".cfg") || word == "--budget" || word.starts_with("--budget=");
  });
}

int serve_networks_command(const std::vector<std::string>& words) {
  return carry_out(serve_networks_description(), words, read_serve_networks_options,
                   serve_networks);
}

}  // namespace weightpager::tools
