// `weightpager plan primitives`: chooses how to compute each convolution of a network on this
// machine, and shows how much time less memory costs. An instance (a .json) was measured by another
// program, and only the choice is made here.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/model/header_reader.h"
#include "runtime/network/parser.h"
#include "runtime/plan/instance_file.h"
#include "runtime/plan/network_instance.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/plan/measured_profile.h"
#include "tools/commands/plan/plan.h"
#include "tools/commands/plan/selection_front.h"
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
const char* const primitives_example = "weightpager plan primitives yolov3.cfg --budget 400MiB";

}  // namespace

Command plan_primitives_description() {
  return {.name = "weightpager plan primitives",
          .purpose =
              "Measures every way to compute each convolution of a Darknet network on this\n"
              "machine, and finds the fastest selection within a budget of memory for weights and\n"
              "workspace. What was measured is kept in ~/.cache/weightpager. An INSTANCE.json has\n"
              "times of its own: nothing is measured.\n",
          .usage = "  weightpager plan primitives NET.cfg|INSTANCE.json [OPTIONS]\n",
          .options = {{0, "budget", "SIZE",
                       "memory for weights and workspace (enough for the fastest)"},
                      {0, "time", "MS", "instead of a budget: the least memory that is this fast"},
                      {0, "layer-by-layer", "",
                       "keep only the weights of the running layer in memory; each layer is\n"
                       "read from the disk before it runs"},
                      {0, "disk", "GB/S", "how fast that disk reads (2)"},
                      resolution_option(),
                      {0, "threads", "N", "threads that compute (one per processor)"},
                      {0, "measure", "",
                       "run the network by each selection that is shown (with random weights),\n"
                       "in turns with the chosen one, and measure the times that were planned"},
                      time_limit_option(),
                      {0, "json", "FILE", "write the front and all choices to FILE"},
                      {0, "svg", "FILE", "draw the front, and what greedy finds, into FILE"}},
          .examples =
              "  weightpager plan primitives yolov3.cfg\n"
              "  weightpager plan primitives vgg16.cfg --layer-by-layer --disk 0.5\n"
              "  weightpager plan primitives instance.json --time 12.5\n",
          .exit_status = "  0 planned, 1 something failed, 2 misuse\n"};
}

namespace {

struct PrimitivesOptions {
  /// A network's .cfg, or an instance's .json.
  std::string path;
  std::optional<network::Resolution> resolution;
  WantedSelection wanted;
  SelectionScope strategy = SelectionScope::whole_network;
  double disk_gb_per_s = 2;
  int threads = 1;
  bool is_measured = false;
  TimeLimit time_limit;
  std::string json_path;
  std::string svg_path;
};

/// Milliseconds in decimals are not the same number again as nanoseconds. So a selection's own
/// time, given as `--time`, is long enough for that selection.
constexpr double decimal_rounding = 1e-9;

bool is_instance(const std::string& path) { return path.ends_with(".json"); }

Result<WantedSelection> read_wanted(const Arguments& arguments) {
  WantedSelection wanted;
  if (const auto budget = arguments.value("budget")) {
    const auto bytes = parse_bytes(*budget, "--budget");
    if (!bytes) return tl::make_unexpected(bytes.error());
    wanted.budget_bytes = *bytes;
  }
  if (const auto time = arguments.value("time")) {
    const auto ms = parse_number(*time, "--time", times_ms);
    if (!ms) return tl::make_unexpected(ms.error());
    wanted.time_ns_max = *ms * 1e6 * (1 + decimal_rounding);
  }
  if (wanted.budget_bytes && wanted.time_ns_max)
    return fail("--budget and --time contradict each other", "give one of them");
  return wanted;
}

/// What only makes sense for a network that is measured.
Status check_fits_instance(const Arguments& arguments, const std::string& path) {
  if (!is_instance(path)) return {};
  for (const char* const option : {"layer-by-layer", "disk", "resolution", "threads", "measure"}) {
    if (arguments.has(option)) {
      return fail(fmt::format("--{} is for networks, and {} is an instance", option, path),
                  "its times, held bytes and workspaces say all that there is to plan");
    }
  }
  return {};
}

Result<PrimitivesOptions> read_primitives_options(const Arguments& arguments) {
  if (arguments.operands().size() != 1)
    return fail("expected one .cfg or .json", primitives_example);
  PrimitivesOptions options{.path = arguments.operands().front()};
  const auto wanted = read_wanted(arguments);
  if (!wanted) return tl::make_unexpected(wanted.error());
  options.wanted = *wanted;
  if (const Status fits = check_fits_instance(arguments, options.path); !fits)
    return tl::make_unexpected(fits.error());
  if (arguments.has("layer-by-layer")) options.strategy = SelectionScope::layer_by_layer;
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
  options.is_measured = arguments.has("measure");
  if (options.is_measured && options.strategy == SelectionScope::layer_by_layer) {
    return fail("--measure runs networks with all weights in memory", "leave --layer-by-layer out");
  }
  const auto time_limit = parse_time_limit(arguments);
  if (!time_limit) return tl::make_unexpected(time_limit.error());
  options.time_limit = *time_limit;
  options.json_path = arguments.value("json").value_or("");
  options.svg_path = arguments.value("svg").value_or("");
  return options;
}

struct PrimitivesPlan {
  Network network;
  plan::Profile profile;
  NetworkInstance instance;
  SelectionFront selections;
};

std::vector<plan::LayerChoice> choices_of(const PrimitivesPlan& made, const Selection& selection) {
  return plan::choices_of(made.network, made.profile, made.instance.instance, selection.candidates);
}

Status measure_points(PrimitivesPlan& made, int threads) {
  auto chosen = SelectionRun::make(made.network, choices_of(made, made.selections.chosen), threads);
  if (!chosen) return forward_error(std::move(chosen));
  for (FrontPoint& point : made.selections.points) {
    auto run = SelectionRun::make(made.network, choices_of(made, *point.best), threads);
    if (!run) return forward_error(std::move(run));
    const auto in_turns = run_in_turns(*run, *chosen);
    if (!in_turns) return tl::make_unexpected(in_turns.error());
    point.measured = {
        .took_ns = in_turns->took_ns,
        .at_planned_pace_ns = in_turns->by_reference * made.selections.chosen.time_ns};
  }
  return {};
}

/// Makes the whole plan by the profile, except for the measurements.
Status plan_by(plan::Profile profile, const PrimitivesOptions& options, PrimitivesPlan& made) {
  made.profile = std::move(profile);
  made.instance = plan::make_instance(made.network, made.profile, options.strategy,
                                      options.disk_gb_per_s * 1e9);
  const SearchInTime search(options.time_limit, "searching for selections");
  auto found = find_front(made.instance.instance, options.wanted, search.limit());
  if (!found) return forward_error(std::move(found));
  made.selections = std::move(*found);
  return {};
}

Result<PrimitivesPlan> make_plan(const PrimitivesOptions& options) {
  auto network = network::read_network(options.path, options.resolution);
  if (!network) return forward_error(std::move(network));
  PrimitivesPlan made{.network = std::move(*network)};
  const auto choose = [&](const plan::Profile& profile) -> Result<plan::Ways> {
    if (Status done = plan_by(profile, options, made); !done) return forward_error(std::move(done));
    plan::Ways ways;
    for (const FrontPoint& point : made.selections.points)
      ways.push_back(choices_of(made, *point.best));
    ways.push_back(choices_of(made, made.selections.chosen));
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

void print_pace(const PrimitivesPlan& made) {
  std::vector<double> slower;
  for (const FrontPoint& point : made.selections.points) {
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
    const uint32_t choice = made.selections.chosen.candidates[node];
    const plan::Candidate& candidate = made.instance.instance.nodes[node].candidates[choice];
    fmt::print("{:>5}  {:<34} {:<38} {:>8.3f} {:>11.3f} {:>13.3f}\n", i,
               fmt::format("{} {}×{}, {} filters", plan::picture_key(layer.input), it->size,
                           it->size, it->filters),
               made.instance.names[node][choice], milliseconds(candidate.time_ns),
               mebibytes(candidate.held_bytes), mebibytes(candidate.workspace_bytes));
  }
}

void print_plan(const PrimitivesPlan& made, const PrimitivesOptions& options) {
  fmt::print("{}: {} convolutions, {}\n{}, {} points\n", options.path, convolutions(made.network),
             made.profile.machine,
             options.strategy == SelectionScope::whole_network
                 ? "all weights in memory, one workspace"
                 : fmt::format("layer by layer, weights read at {} GB/s", options.disk_gb_per_s),
             made.selections.front.size());
  print_front(made.instance.instance, made.selections);
  if (options.is_measured) print_pace(made);
  print_chosen(made.selections, options.wanted);
  print_choices(made);
}

nlohmann::ordered_json to_json(const PrimitivesPlan& made, const PrimitivesOptions& options) {
  nlohmann::ordered_json json = {
      {"schema_version", primitives_schema_version},
      {"plan", "primitives"},
      {"network", options.path},
      {"machine", made.profile.machine},
      {"strategy",
       options.strategy == SelectionScope::whole_network ? "whole-network" : "layer-by-layer"},
      {"read_bytes_per_s", options.disk_gb_per_s * 1e9}};
  add_front(json, made.selections);
  for (uint32_t i = 0; i < made.network.layers.size(); ++i) {
    const uint32_t node = NetworkInstance::node_of_layer(i);
    const uint32_t choice = made.selections.chosen.candidates[node];
    const plan::Candidate& candidate = made.instance.instance.nodes[node].candidates[choice];
    json["layers"].push_back({{"layer", i},
                              {"computed_by", made.instance.names[node][choice]},
                              {"candidates", made.instance.names[node].size()},
                              {"time_ns", candidate.time_ns},
                              {"held_bytes", candidate.held_bytes},
                              {"workspace_bytes", candidate.workspace_bytes}});
  }
  return json;
}

// ---- Instances ----

void print_instance(const plan::NamedInstance& read, const SelectionFront& found,
                    const PrimitivesOptions& options) {
  size_t candidates = 0;
  for (const auto& names : read.names) candidates += names.size();
  fmt::print("{}: {} nodes, {} candidates, {} edges, {} points\n", options.path, read.names.size(),
             candidates, read.instance.edges.size(), found.front.size());
  print_front(read.instance, found);
  print_chosen(found, options.wanted);
  fmt::print("\n{:>5}  {:<34} {:<38} {:>8}\n", "node", "name", "computed by", "time ms");
  for (size_t node = 0; node < read.names.size(); ++node) {
    if (read.names[node].size() == 1) continue;
    const uint32_t choice = found.chosen.candidates[node];
    fmt::print("{:>5}  {:<34} {:<38} {:>8.3f}\n", node,
               model::printable(read.instance.nodes[node].name),
               model::printable(read.names[node][choice]),
               milliseconds(read.instance.nodes[node].candidates[choice].time_ns));
  }
}

nlohmann::ordered_json to_json(const plan::NamedInstance& read, const SelectionFront& found,
                               const PrimitivesOptions& options) {
  nlohmann::ordered_json json = {{"schema_version", primitives_schema_version},
                                 {"plan", "primitives"},
                                 {"instance", options.path}};
  add_front(json, found);
  for (size_t node = 0; node < read.names.size(); ++node) {
    json["nodes"].push_back({{"name", read.instance.nodes[node].name},
                             {"computed_by", read.names[node][found.chosen.candidates[node]]}});
  }
  return json;
}

// ---- Files ----

/// What the options ask for, tried before the search.
struct PrimitivesFiles {
  std::optional<ReportFile> json;
  std::optional<ReportFile> svg;
};

Result<PrimitivesFiles> create_files(const PrimitivesOptions& options) {
  auto json = ReportFile::create_if_asked(options.json_path);
  if (!json) return forward_error(std::move(json));
  auto svg = ReportFile::create_if_asked(options.svg_path, "--svg");
  if (!svg) return forward_error(std::move(svg));
  return PrimitivesFiles{*std::move(json), *std::move(svg)};
}

/// `json` is only called if its text is wanted.
template <typename JsonOf>
int write_files(PrimitivesFiles& files, const PrimitivesOptions& options,
                const SelectionFront& found, JsonOf json) {
  if (files.svg) {
    const Status written = files.svg->commit(front_svg(model::printable(options.path), found));
    if (!written) return failure(written.error());
  }
  if (!files.json) return exit_success;
  // Names in an instance may be no UTF-8.
  const std::string text =
      json().dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const Status written = files.json->commit(text + "\n");
  return written ? exit_success : failure(written.error());
}

int plan_of_instance(const PrimitivesOptions& options, PrimitivesFiles files) {
  const auto read = plan::read_instance(options.path);
  if (!read) return failure(read.error());
  std::optional<SearchInTime> search(std::in_place, options.time_limit, "searching for selections");
  const auto found = find_front(read->instance, options.wanted, search->limit());
  search.reset();
  if (!found) return failure(found.error());
  print_instance(*read, *found, options);
  return write_files(files, options, *found, [&] { return to_json(*read, *found, options); });
}

int plan_primitives(const PrimitivesOptions& options) {
  auto files = create_files(options);
  if (!files) return failure(files.error());
  if (is_instance(options.path)) return plan_of_instance(options, *std::move(files));
  const auto made = make_plan(options);
  if (!made) return failure(made.error());
  print_plan(*made, options);
  return write_files(*files, options, made->selections, [&] { return to_json(*made, options); });
}

}  // namespace

int plan_primitives_command(const std::vector<std::string>& words) {
  return carry_out(plan_primitives_description(), words, read_primitives_options, plan_primitives);
}

}  // namespace weightpager::tools
