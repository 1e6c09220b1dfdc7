// `weightpager plan primitives`: chooses how to compute each convolution of a network on this
// machine, and shows how much time less memory costs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/network/parser.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/integer_program.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/pareto.h"
#include "runtime/plan/select.h"
#include "runtime/plan/series_parallel.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/plan/measured_profile.h"
#include "tools/commands/plan/plan.h"
#include "tools/commands/plan/selection_run.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/search_in_time.h"

namespace weightpager::tools {
namespace {

using network::Network;
using plan::NetworkInstance;
using plan::Selection;
using plan::SelectionScope;

constexpr int primitives_schema_version = 1;
constexpr uint64_t quantum_bytes = 1;  // exact: series_parallel.h
constexpr size_t points_shown = 12;
const char* const primitives_example = "weightpager plan primitives yolov3.cfg --budget 400MiB";

}  // namespace

Command plan_primitives_description() {
  return {.name = "weightpager plan primitives",
          .purpose =
              "Measures every way to compute each convolution of a Darknet network on this\n"
              "machine, and finds the fastest selection within a budget of memory for weights and\n"
              "workspace. What was measured is kept in ~/.cache/weightpager.\n",
          .usage = "  weightpager plan primitives NET.cfg [OPTIONS]\n",
          .options = {{0, "budget", "SIZE",
                       "memory for weights and workspace (enough for the fastest)"},
                      {0, "layer-by-layer", "",
                       "keep only the weights of the running layer in memory; each layer is\n"
                       "read from the disk before it runs"},
                      {0, "disk", "GB/S", "how fast that disk reads (2)"},
                      {0, "threads", "N", "threads that compute (one per processor)"},
                      {0, "measure", "",
                       "run the network by each selection that is shown (with random weights),\n"
                       "in turns with the chosen one, and measure the times that were planned"},
                      time_limit_option(),
                      {0, "json", "FILE", "write the front and all choices to FILE"}},
          .examples =
              "  weightpager plan primitives yolov3.cfg\n"
              "  weightpager plan primitives vgg16.cfg --layer-by-layer --disk 0.5\n",
          .exit_status = "  0 planned, 1 something failed, 2 misuse\n"};
}

namespace {

struct PrimitivesOptions {
  std::string cfg_path;
  std::optional<uint64_t> budget_bytes;
  SelectionScope strategy = SelectionScope::whole_network;
  double disk_gb_per_s = 2;
  int threads = 1;
  bool is_measured = false;
  TimeLimit time_limit;
  std::string json_path;
};

Result<PrimitivesOptions> read_primitives_options(const Arguments& arguments) {
  if (arguments.operands().size() != 1) return fail("expected one .cfg", primitives_example);
  PrimitivesOptions options{.cfg_path = arguments.operands().front()};
  if (const auto budget = arguments.value("budget")) {
    const auto bytes = parse_bytes(*budget, "--budget");
    if (!bytes) return tl::make_unexpected(bytes.error());
    options.budget_bytes = *bytes;
  }
  if (arguments.has("layer-by-layer")) options.strategy = SelectionScope::layer_by_layer;
  const auto disk =
      parse_number(arguments.value("disk").value_or("2"), "--disk", bandwidths_gb_per_s);
  if (!disk) return tl::make_unexpected(disk.error());
  options.disk_gb_per_s = *disk;
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  options.threads = *threads;
  options.is_measured = arguments.has("measure");
  if (options.is_measured && options.strategy == SelectionScope::layer_by_layer) {
    return fail("--measure runs networks with all weights in memory", "leave --layer-by-layer out");
  }
  const auto time_limit = parse_time_limit(arguments);
  if (!time_limit) return tl::make_unexpected(time_limit.error());
  options.time_limit = *time_limit;
  options.json_path = arguments.value("json").value_or("");
  return options;
}

/// The time of convolutions and changes of layout: the median of some runs.
struct Measured {
  double took_ns = 0;
  /// The time on a machine on which the chosen selection takes its planned time.
  double at_planned_pace_ns = 0;
};

/// A point of the front, and the greedy selection for the same memory.
struct Point {
  const Selection* best = nullptr;
  std::optional<Selection> greedy;
  /// Set if measuring was asked for.
  std::optional<Measured> measured;
};

struct PrimitivesPlan {
  Network network;
  plan::Profile profile;
  NetworkInstance instance;
  std::vector<Selection> front;
  std::vector<Point> points;
  Selection chosen;
  /// The time limit ended the search before every workspace was tried.
  bool is_cut_short = false;
};

/// Points that are evenly spread over the front, with both of its ends. They have greedy selections
/// as far as there is time.
std::vector<Point> points_of(const std::vector<Selection>& front, const plan::Instance& instance,
                             const Selection& fastest, const TimeLimit& limit) {
  const size_t count = std::min(points_shown, front.size());
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i) {
    const Selection& best = front[count == 1 ? 0 : i * (front.size() - 1) / (count - 1)];
    Point& point = points.emplace_back(Point{.best = &best});
    if (limit.is_over()) continue;
    auto greedy = plan::greedy(instance, best.memory_bytes(), fastest.candidates);
    if (greedy) point.greedy = *std::move(greedy);
  }
  return points;
}

std::vector<plan::LayerChoice> choices_of(const PrimitivesPlan& made, const Selection& selection) {
  return plan::choices_of(made.network, made.profile, made.instance.instance, selection.candidates);
}

Status measure_points(PrimitivesPlan& made, int threads) {
  auto chosen = SelectionRun::make(made.network, choices_of(made, made.chosen), threads);
  if (!chosen) return forward_error(std::move(chosen));
  for (Point& point : made.points) {
    auto run = SelectionRun::make(made.network, choices_of(made, *point.best), threads);
    if (!run) return forward_error(std::move(run));
    const auto in_turns = run_in_turns(*run, *chosen);
    if (!in_turns) return tl::make_unexpected(in_turns.error());
    point.measured = {.took_ns = in_turns->took_ns,
                      .at_planned_pace_ns = in_turns->by_reference * made.chosen.time_ns};
  }
  return {};
}

/// Makes the whole plan by the profile, except for the measurements.
Status plan_by(plan::Profile profile, const PrimitivesOptions& options, PrimitivesPlan& made) {
  made.profile = std::move(profile);
  made.instance = plan::make_instance(made.network, made.profile, options.strategy,
                                      options.disk_gb_per_s * 1e9);
  const plan::Instance& instance = made.instance.instance;
  const SearchInTime search(options.time_limit, "searching for selections");
  auto front = plan::front_of_any_network(instance, quantum_bytes, points_shown, search.limit());
  if (!front) return forward_error(std::move(front));
  made.front = std::move(*front);
  made.chosen = made.front.back();
  if (options.budget_bytes) {
    auto chosen =
        plan::fastest_on_front(instance, *options.budget_bytes, made.front, search.limit());
    if (!chosen) return forward_error(std::move(chosen));
    made.chosen = std::move(*chosen);
  }
  const auto by_time = plan::fastest_ignoring_memory(instance, search.limit());
  if (!by_time) return tl::make_unexpected(by_time.error());
  made.is_cut_short = search.limit().is_over();
  made.points = points_of(made.front, instance, *by_time, search.limit());
  return {};
}

Result<PrimitivesPlan> make_plan(const PrimitivesOptions& options) {
  auto network = network::read_network(options.cfg_path);
  if (!network) return forward_error(std::move(network));
  PrimitivesPlan made{.network = std::move(*network)};
  const auto choose = [&](const plan::Profile& profile) -> Result<plan::Ways> {
    if (Status done = plan_by(profile, options, made); !done) return forward_error(std::move(done));
    plan::Ways ways;
    for (const Point& point : made.points) ways.push_back(choices_of(made, *point.best));
    ways.push_back(choices_of(made, made.chosen));
    return ways;
  };
  auto profile = measure_profile(
      made.network, options.threads,
      options.is_measured ? plan::Pace::now : plan::Pace::as_first_measured, choose);
  if (!profile) return forward_error(std::move(profile));
  if (Status done = plan_by(std::move(*profile), options, made); !done) {
    return forward_error(std::move(done));
  }
  if (!options.is_measured) return made;
  if (Status measured = measure_points(made, options.threads); !measured) {
    return forward_error(std::move(measured));
  }
  return made;
}

size_t convolutions(const Network& network) {
  return static_cast<size_t>(
      std::count_if(network.layers.begin(), network.layers.end(), [](const network::Layer& layer) {
        return std::holds_alternative<network::Convolutional>(layer.operation);
      }));
}

void print_front(const PrimitivesPlan& made, bool is_measured) {
  fmt::print("{:>10} {:>11} {:>13} {:>10} {:>11} {:>8}{}\n", "memory MiB", "weights MiB",
             "workspace MiB", "time ms", "greedy ms", "slower",
             is_measured ? fmt::format(" {:>11}", "measured ms") : "");
  for (const Point& point : made.points) {
    const Selection& it = *point.best;
    const std::string greedy =
        point.greedy ? fmt::format("{:>11.2f} {:>7.2f}×", milliseconds(point.greedy->time_ns),
                                   point.greedy->time_ns / it.time_ns)
                     : fmt::format("{:>11} {:>8}", "none", "");
    const std::string measured =
        point.measured ? fmt::format(" {:>11.2f}", milliseconds(point.measured->at_planned_pace_ns))
                       : "";
    fmt::print("{:>10.2f} {:>11.2f} {:>13.2f} {:>10.2f} {}{}\n", mebibytes(it.memory_bytes()),
               mebibytes(it.held_bytes), mebibytes(it.workspace_bytes), milliseconds(it.time_ns),
               greedy, measured);
  }
}

void print_pace(const PrimitivesPlan& made) {
  std::vector<double> slower;
  for (const Point& point : made.points) {
    slower.push_back(point.measured->took_ns / point.measured->at_planned_pace_ns);
  }
  const auto [least, most] = std::minmax_element(slower.begin(), slower.end());
  fmt::print("measured at the pace of the plan; this machine took {:.2f} to {:.2f} times as long\n",
             *least, *most);
}

/// Prints the choices of the convolutions. Other layers have no choice, or none that is worth a
/// line.
void print_choices(const PrimitivesPlan& made) {
  fmt::print("\n{:>5}  {:<34} {:<38} {:>8} {:>10} {:>13}\n", "layer", "convolution", "computed by",
             "time ms", "weights MiB", "workspace MiB");
  for (uint32_t i = 0; i < made.network.layers.size(); ++i) {
    const network::Layer& layer = made.network.layers[i];
    const auto* it = std::get_if<network::Convolutional>(&layer.operation);
    if (it == nullptr) continue;
    const uint32_t node = NetworkInstance::node_of_layer(i);
    const uint32_t choice = made.chosen.candidates[node];
    const plan::Candidate& candidate = made.instance.instance.nodes[node].candidates[choice];
    fmt::print("{:>5}  {:<34} {:<38} {:>8.3f} {:>11.3f} {:>13.3f}\n", i,
               fmt::format("{} {}×{}, {} filters", plan::picture_key(layer.input), it->size,
                           it->size, it->filters),
               made.instance.names[node][choice], milliseconds(candidate.time_ns),
               mebibytes(candidate.held_bytes), mebibytes(candidate.workspace_bytes));
  }
}

void print_exactness(const PrimitivesPlan& made) {
  if (made.is_cut_short) {
    print(stdout,
          "--time-limit was over before every workspace was tried: there may be better points, "
          "except for the least memory and the fastest\n\n");
    return;
  }
  if (!plan::is_exact(made.instance.instance)) {
    print(stdout,
          "only some points, because there are so many layers: there may be better points, except "
          "for the least memory and the fastest\n\n");
    return;
  }
  if (!plan::cuts_needed(made.instance.instance)) {
    fmt::print("points at evenly spaced budgets: between them there may be better ones\n\n");
    return;
  }
  fmt::print("no selection is better than these\n\n");
}

void print_plan(const PrimitivesPlan& made, const PrimitivesOptions& options) {
  fmt::print("{}: {} convolutions, {}\n{}, {} points\n", options.cfg_path,
             convolutions(made.network), made.profile.machine,
             options.strategy == SelectionScope::whole_network
                 ? "all weights in memory, one workspace"
                 : fmt::format("layer by layer, weights read at {} GB/s", options.disk_gb_per_s),
             made.front.size());
  print_exactness(made);
  print_front(made, options.is_measured);
  if (options.is_measured) print_pace(made);
  fmt::print("\n{}: {:.2f} ms in {:.2f} MiB\n",
             options.budget_bytes ? fmt::format("within {}", format_size(*options.budget_bytes))
                                  : "the fastest",
             milliseconds(made.chosen.time_ns), mebibytes(made.chosen.memory_bytes()));
  print_choices(made);
}

nlohmann::ordered_json selection_json(const Selection& it) {
  return {{"memory_bytes", it.memory_bytes()},
          {"held_bytes", it.held_bytes},
          {"workspace_bytes", it.workspace_bytes},
          {"time_ns", it.time_ns}};
}

nlohmann::ordered_json to_json(const PrimitivesPlan& made, const PrimitivesOptions& options) {
  nlohmann::ordered_json json = {
      {"schema_version", primitives_schema_version},
      {"plan", "primitives"},
      {"network", options.cfg_path},
      {"machine", made.profile.machine},
      {"strategy",
       options.strategy == SelectionScope::whole_network ? "whole-network" : "layer-by-layer"},
      {"read_bytes_per_s", options.disk_gb_per_s * 1e9},
      {"is_cut_short", made.is_cut_short},
      {"chosen", selection_json(made.chosen)}};
  for (uint32_t i = 0; i < made.network.layers.size(); ++i) {
    const uint32_t node = NetworkInstance::node_of_layer(i);
    const uint32_t choice = made.chosen.candidates[node];
    const plan::Candidate& candidate = made.instance.instance.nodes[node].candidates[choice];
    json["layers"].push_back({{"layer", i},
                              {"computed_by", made.instance.names[node][choice]},
                              {"candidates", made.instance.names[node].size()},
                              {"time_ns", candidate.time_ns},
                              {"held_bytes", candidate.held_bytes},
                              {"workspace_bytes", candidate.workspace_bytes}});
  }
  for (const Selection& it : made.front) json["front"].push_back(selection_json(it));
  for (const Point& point : made.points) {
    nlohmann::ordered_json it = selection_json(*point.best);
    for (const char* const known_or_null : {"greedy_time_ns", "measured_time_ns", "took_ns"}) {
      it[known_or_null] = nullptr;
    }
    if (point.greedy) it["greedy_time_ns"] = point.greedy->time_ns;
    if (point.measured) {
      it["measured_time_ns"] = point.measured->at_planned_pace_ns;
      it["took_ns"] = point.measured->took_ns;
    }
    json["points"].push_back(std::move(it));
  }
  return json;
}

int plan_primitives(const PrimitivesOptions& options) {
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  const auto made = make_plan(options);
  if (!made) return failure(made.error());
  print_plan(*made, options);
  if (!*report) return exit_success;
  const Status written = (*report)->commit(to_json(*made, options).dump(1) + "\n");
  return written ? exit_success : failure(written.error());
}

}  // namespace

int plan_primitives_command(const std::vector<std::string>& words) {
  return carry_out(plan_primitives_description(), words, read_primitives_options, plan_primitives);
}

}  // namespace weightpager::tools
