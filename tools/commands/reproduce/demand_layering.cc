// The figures and tables of "Demand Layering for Real-Time DNN Inference with Minimized Memory
// Usage", from the paper's own numbers.
//
// Problem. The paper publishes delays and memory of five networks on one board, and few of the
// times behind them.
//
// Idea. The networks follow from their structure. A layer's costs follow from bytes and operations
// (runtime/infer/assumed_costs.h), with the disk and the bus of the paper's board. What is left is
// one number for each network, the kernels' time. By Equations (1) and (5) it is the time of all
// reads and copies over the published overhead of Seq. Everything else is computed by the
// equations of runtime/pipeline/timeline.h and compared with what the paper measured.
//
// Cost: some seconds, most of it for the sweeps of Figure 13.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <regex>
#include <span>

#include "pager/base/units.h"
#include "runtime/infer/assumed_costs.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/pipeline/search.h"
#include "tools/commands/reproduce/paper.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using network::Network;
using pipeline::Pipeline;
using pipeline::Rings;
using pipeline::UnitCosts;
using Costs = std::vector<UnitCosts>;

/// Against Pre, in percent.
struct PublishedChange {
  double memory = 0;
  double delay = 0;
};

/// A row of the paper's Table I, and its row of Table II.
struct PublishedNetwork {
  const char* name;
  const char* title;
  double model_mib;
  size_t layers;
  double largest_layer_mib;
  uint32_t side;
  /// In the order of `compared`.
  std::array<PublishedChange, 6> changes;
};

struct Compared {
  const char* name;
  Pipeline pipeline;
  /// The smallest window with the least delay, not the smallest window.
  bool is_without_delay;
};

constexpr std::array<Compared, 6> compared = {{{"Seq", Pipeline::sequential, false},
                                               {"Sync", Pipeline::synchronous, false},
                                               {"Async", Pipeline::asynchronous, false},
                                               {"Async-MD", Pipeline::asynchronous, true},
                                               {"2S", Pipeline::two_stage, false},
                                               {"2S-MD", Pipeline::two_stage, true}}};

constexpr std::array<PublishedNetwork, 5> published = {{
    {"yolov3",
     "YOLOv3",
     236.5,
     107,
     18.0,
     608,
     {{{-92.4, 44.9}, {-84.8, 18.9}, {-92.4, 18.1}, {-83.1, 1.7}, {-96.2, 21.8}, {-84.8, 0.5}}}},
    {"yolov4",
     "YOLOv4",
     245.8,
     162,
     18.0,
     608,
     {{{-92.7, 52.1}, {-85.4, 23.7}, {-92.7, 12.7}, {-83.1, 1.7}, {-96.3, 21.5}, {-89.3, 0.4}}}},
    {"yolov4-p6",
     "YOLOv4-P6",
     487.2,
     305,
     36.0,
     640,
     {{{-92.6, 70.2}, {-85.2, 38.4}, {-92.6, 8.7}, {-84.2, 2.0}, {-96.3, 16.7}, {-85.7, 0.3}}}},
    {"resnet152",
     "ResNet152",
     219.6,
     206,
     9.0,
     608,
     {{{-95.9, 45.8}, {-91.8, 11.4}, {-95.9, 2.7}, {-92.0, 1.2}, {-98.0, 5.1}, {-93.9, 0.2}}}},
    {"densenet201",
     "DenseNet201",
     65.6,
     306,
     5.9,
     608,
     {{{-91.0, 65.4}, {-82.0, 22.9}, {-91.0, 2.0}, {-86.9, 1.0}, {-95.5, 8.9}, {-88.2, 0.4}}}},
}};
constexpr size_t yolov4 = 1;

/// Nearest to the paper's Table II when a window counts as without delay.
constexpr double tolerance = 0.004;
constexpr const char* by_equation =
    "By equation: the disk and the bus of the paper's board, and kernels whose sum follows from "
    "the published overhead of Seq.";

// ---- Networks and their costs ----

/// The network with square pictures of `side` pixels.
Result<Network> network_at(const PublishedNetwork& known, uint32_t side) {
  auto text = network::make_description(known.name);
  if (!text) return forward_error(std::move(text));
  const std::string sized = std::regex_replace(*text, std::regex("(\n)(width|height)=[0-9]+"),
                                               fmt::format("$1$2={}", side));
  return network::parse_network(sized, known.name);
}

/// Equations (1) and (5): Seq takes (reads + copies) longer than Pre.
double kernels_ms(const PublishedNetwork& known, const Network& network) {
  const Costs costs = infer::assumed_costs(network, {.kernels_ms = 1});
  uint64_t moved_ns = 0;
  for (const UnitCosts& unit : costs) moved_ns += unit.read_ns + unit.copy_ns;
  return milliseconds(moved_ns) / (known.changes[0].delay / 100);
}

/// A network of the paper's with what it costs on the paper's board.
struct PaperNetwork {
  const PublishedNetwork& known;
  Network network;
  double kernels_ms = 0;
  Costs costs;
};

Result<PaperNetwork> paper_network(const PublishedNetwork& known) {
  auto network = network_at(known, known.side);
  if (!network) return forward_error(std::move(network));
  const double kernels = kernels_ms(known, *network);
  Costs costs = infer::assumed_costs(*network, {.kernels_ms = kernels});
  return PaperNetwork{known, std::move(*network), kernels, std::move(costs)};
}

/// Its costs with pictures of another size: a kernel's operations change, and nothing else.
Result<Costs> costs_at(const PaperNetwork& it, uint32_t side) {
  const auto resized = network_at(it.known, side);
  if (!resized) return tl::make_unexpected(resized.error());
  return infer::assumed_costs(
      *resized, {.kernels_ms = infer::resized_kernels_ms(it.network, it.kernels_ms, *resized)});
}

uint64_t sum_of(const Costs& costs, uint64_t UnitCosts::*part) {
  return std::accumulate(costs.begin(), costs.end(), uint64_t{0},
                         [&](uint64_t sum, const UnitCosts& it) { return sum + it.*part; });
}

Rings rings_of(const Compared& how, const Costs& costs) {
  if (how.is_without_delay)
    return pipeline::smallest_rings_without_stalls(how.pipeline, costs, tolerance);
  return pipeline::smallest_rings(how.pipeline, pipeline::work_units(costs));
}

/// Memory and delay against Pre, which has all weights twice (Equation (2)).
PublishedChange change(const PaperNetwork& it, const Compared& how) {
  const Rings rings = rings_of(how, it.costs);
  const auto all_twice = 2 * static_cast<double>(it.network.folded_bytes());
  const double delay_ms = milliseconds(pipeline::delay_ns(how.pipeline, it.costs, rings));
  return {.memory = 100 * (static_cast<double>(rings.bytes()) / all_twice - 1),
          .delay = 100 * (delay_ms / it.kernels_ms - 1)};
}

// ---- Table I, Figures 4 to 9 ----

Result<Reproduction> table_1(const ReproduceSettings&) {
  Table table = {.title = "Networks, published / ours",
                 .columns = {"network", "model, MB", "layers", "largest layer, MB", "input"},
                 .rows = {},
                 .note =
                     "MB are MiB here, as in the paper. `weightpager model make --net NAME` "
                     "makes these networks, with random weights."};
  for (const PublishedNetwork& known : published) {
    const auto network = network_at(known, known.side);
    if (!network) return tl::make_unexpected(network.error());
    uint64_t largest_bytes = 0;
    for (const network::Layer& layer : network->layers)
      largest_bytes = std::max(largest_bytes, layer.raw_bytes());
    table.rows.push_back(
        {known.title,
         fmt::format("{:.1f} / {:.1f}", known.model_mib, mebibytes(network->weights_file_bytes())),
         fmt::format("{} / {}", known.layers, network->layers.size()),
         fmt::format("{:.1f} / {:.1f}", known.largest_layer_mib, mebibytes(largest_bytes)),
         fmt::format("{0}x{0} / {1}x{2}", known.side, network->input.width,
                     network->input.height)});
  }
  return Reproduction{.tables = {std::move(table)}, .pictures = {}, .lacks = {}};
}

Result<Reproduction> figure_4(const ReproduceSettings&) {
  const auto it = paper_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  LineChart times = {.title = "YOLOv4 by layer, on the paper's board by equation",
                     .x_label = "layer",
                     .y_label = "ms",
                     .lines = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  LineChart sizes = {
      .title = "YOLOv4 by layer", .x_label = "layer", .y_label = "MiB", .lines = {{"weights", {}}}};
  for (size_t i = 0; i < it->costs.size(); ++i) {
    const auto x = static_cast<double>(i + 1);
    times.lines[0].points.emplace_back(x, milliseconds(it->costs[i].read_ns));
    times.lines[1].points.emplace_back(x, milliseconds(it->costs[i].copy_ns));
    times.lines[2].points.emplace_back(x, milliseconds(it->costs[i].kernel_ns));
    sizes.lines[0].points.emplace_back(x, mebibytes(it->costs[i].size_bytes));
  }
  return Reproduction{
      .tables = {},
      .pictures = {{"figure-4", svg_of(times)}, {"figure-4-2", svg_of(sizes)}},
      .lacks = {"This machine's times of each layer: `weightpager bench pipelines NET.cfg "
                "NET.weights --json FILE` has them as layer_costs."}};
}

/// The share of layers whose value is at most x.
ChartLine distribution(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  ChartLine line = {.name = name, .points = {}};
  for (size_t i = 0; i < values.size(); ++i)
    line.points.emplace_back(values[i],
                             static_cast<double>(i + 1) / static_cast<double>(values.size()));
  return line;
}

Result<Reproduction> figure_5(const ReproduceSettings&) {
  const auto it = paper_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  std::array<std::vector<double>, 4> values;
  for (const UnitCosts& unit : it->costs) {
    values[0].push_back(milliseconds(unit.read_ns));
    values[1].push_back(milliseconds(unit.copy_ns));
    values[2].push_back(milliseconds(unit.kernel_ns));
  }
  size_t below_a_tenth = 0;
  size_t largest = 0;
  for (const network::Layer& layer : it->network.layers) {
    values[3].push_back(mebibytes(layer.raw_bytes()));
    below_a_tenth += values[3].back() < 0.1;
    largest += values[3].back() > 17.9;
  }
  const LineChart times = {
      .title = "Times of YOLOv4's layers",
      .x_label = "at most so many ms",
      .y_label = "share of layers",
      .lines = {distribution("read", values[0]), distribution("copy", values[1]),
                distribution("kernel", values[2])}};
  const LineChart sizes = {.title = "Sizes of YOLOv4's layers",
                           .x_label = "at most so many MiB",
                           .y_label = "share of layers",
                           .lines = {distribution("weights", values[3])}};
  Table table = {.title = "YOLOv4's layers, published / ours",
                 .columns = {"", "published", "ours"},
                 .rows = {{"layers under 0.1 MB", "75 (46 %)", fmt::format("{}", below_a_tenth)},
                          {"layers of the largest size", "6", fmt::format("{}", largest)}},
                 .note = by_equation};
  return Reproduction{.tables = {std::move(table)},
                      .pictures = {{"figure-5", svg_of(times)}, {"figure-5-2", svg_of(sizes)}},
                      .lacks = {}};
}

/// Multiples of 32 pixels, and for YOLOv4-P6, which halves its pictures once more, of 64.
std::vector<uint32_t> sides(const ReproduceSettings& settings, const PublishedNetwork& known) {
  const uint32_t grain = known.side % 64 == 0 ? 64 : 32;
  const uint32_t step = settings.is_quick ? 6 * grain : 2 * grain;
  constexpr uint32_t side_min = 224;
  std::vector<uint32_t> sides = {known.side};
  while (sides.front() >= side_min + step) sides.insert(sides.begin(), sides.front() - step);
  return sides;
}

Result<Reproduction> figure_6(const ReproduceSettings& settings) {
  const auto it = paper_network(published[yolov4]);
  if (!it) return tl::make_unexpected(it.error());
  LineChart chart = {.title = "Total times of YOLOv4 by input resolution",
                     .x_label = "pixels of a side",
                     .y_label = "ms",
                     .lines = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  Table table = {.title = "Total times of YOLOv4, ms",
                 .columns = {"input", "read", "copy", "kernel"},
                 .rows = {},
                 .note = by_equation};
  constexpr std::array parts = {&UnitCosts::read_ns, &UnitCosts::copy_ns, &UnitCosts::kernel_ns};
  for (const uint32_t side : sides(settings, published[yolov4])) {
    const auto costs = costs_at(*it, side);
    if (!costs) return tl::make_unexpected(costs.error());
    std::vector<std::string> row = {fmt::format("{0}x{0}", side)};
    for (size_t i = 0; i < parts.size(); ++i) {
      const double total_ms = milliseconds(sum_of(*costs, parts[i]));
      chart.lines[i].points.emplace_back(side, total_ms);
      row.push_back(fmt::format("{:.1f}", total_ms));
    }
    table.rows.push_back(std::move(row));
  }
  return Reproduction{
      .tables = {std::move(table)}, .pictures = {{"figure-6", svg_of(chart)}}, .lacks = {}};
}

// ---- Figures 10 and 11: timelines ----

/// Five layers, of which the fourth takes long to read, as in the paper's figures. (Their values
/// are in the paper's pictures alone.)
const std::vector<GivenLayer>& example_layers() {
  static const std::vector<GivenLayer> layers = {
      {1, 0.5, 2, 1}, {2, 1, 3, 2}, {1, 0.5, 2, 1}, {4, 1.5, 3, 4}, {1, 0.5, 2, 1}};
  return layers;
}

Costs given_costs(const ReproduceSettings& settings) {
  Costs costs;
  const auto ns = [](double ms) { return static_cast<uint64_t>(ms * 1e6); };
  for (const GivenLayer& it : settings.layers.empty() ? example_layers() : settings.layers) {
    costs.push_back({.size_bytes = static_cast<uint64_t>(it.size_mib * static_cast<double>(MiB)),
                     .read_ns = ns(it.read_ms),
                     .copy_ns = ns(it.copy_ms),
                     .kernel_ns = ns(it.kernel_ms)});
  }
  return costs;
}

/// One colour for each layer, again from the first one on when all are used.
constexpr std::array<const char*, 5> layer_colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00"};

std::string timeline_svg(const std::string& title, Pipeline pipeline, const Costs& costs,
                         const Rings& rings) {
  const pipeline::Timeline times = pipeline::timeline(pipeline, costs, rings);
  TimeChart chart = {.title = fmt::format("{}: {:.2f} ms", title, milliseconds(times.delay_ns())),
                     .x_label = "ms",
                     .colours = {},
                     .rows = {{"read", {}}, {"copy", {}}, {"kernel", {}}}};
  for (size_t i = 0; i < costs.size(); ++i)
    chart.colours.emplace_back(fmt::format("layer {}", i + 1),
                               layer_colours[i % layer_colours.size()]);
  constexpr std::array stages = {&pipeline::UnitTimes::read, &pipeline::UnitTimes::copy,
                                 &pipeline::UnitTimes::kernel};
  for (size_t i = 0; i < times.units.size(); ++i) {
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const pipeline::TimeSpan& span = times.units[i].*stages[stage];
      if (span.finish_ns == span.start_ns) continue;
      chart.rows[stage].bars.push_back(
          {milliseconds(span.start_ns), milliseconds(span.finish_ns), i});
    }
  }
  return svg_of(chart);
}

/// A row of a table of timelines: what the pipeline's equation gives.
std::vector<std::string> timeline_row(const std::string& name, Pipeline pipeline,
                                      const Costs& costs, const Rings& rings) {
  const uint64_t delay = pipeline::delay_ns(pipeline, costs, rings);
  const uint64_t kernels = sum_of(costs, &UnitCosts::kernel_ns);
  return {name, fmt::format("{:.1f}", mebibytes(rings.bytes())),
          fmt::format("{:.2f}", milliseconds(delay)),
          fmt::format("{:.2f}", milliseconds(delay - kernels))};
}

Table timeline_table(const Costs& costs) {
  std::string layers;
  for (const UnitCosts& it : costs)
    layers += fmt::format("{}({:.2f}, {:.2f}, {:.2f}; {:.1f})", layers.empty() ? "" : ", ",
                          milliseconds(it.read_ns), milliseconds(it.copy_ns),
                          milliseconds(it.kernel_ns), mebibytes(it.size_bytes));
  return {.title = "Delays",
          .columns = {"pipeline", "window, MiB", "delay, ms", "beyond all kernels, ms"},
          .rows = {},
          .note = "Layers (read, copy, kernel in ms; MiB): " + layers + "."};
}

Result<Reproduction> figure_10(const ReproduceSettings& settings) {
  const Costs costs = given_costs(settings);
  const auto units = pipeline::work_units(costs);
  Reproduction made;
  Table table = timeline_table(costs);
  // As in the figure, no buffer is too small for what comes next.
  const uint64_t all_bytes = sum_of(costs, &UnitCosts::size_bytes);
  constexpr std::array<std::pair<const char*, Pipeline>, 3> shown = {
      {{"sequential (a)", Pipeline::sequential},
       {"synchronous (b)", Pipeline::synchronous},
       {"asynchronous (c)", Pipeline::asynchronous}}};
  for (const auto& [name, which] : shown) {
    const Rings rings = which == Pipeline::asynchronous ? Rings{all_bytes, all_bytes}
                                                        : pipeline::smallest_rings(which, units);
    made.pictures.push_back({fmt::format("figure-10-{}", pipeline::name(which)),
                             timeline_svg(name, which, costs, rings)});
    table.rows.push_back(timeline_row(name, which, costs, rings));
  }
  made.tables.push_back(std::move(table));
  return made;
}

Result<Reproduction> figure_11(const ReproduceSettings& settings) {
  const Costs costs = given_costs(settings);
  const auto units = pipeline::work_units(costs);
  Reproduction made;
  Table table = timeline_table(costs);
  constexpr std::array<std::pair<const char*, Pipeline>, 2> shown = {
      {{"three stages (a)", Pipeline::asynchronous}, {"two stages (b)", Pipeline::two_stage}}};
  for (const auto& [name, which] : shown) {
    const Rings rings = pipeline::smallest_rings(which, units);
    made.pictures.push_back({fmt::format("figure-11-{}", pipeline::name(which)),
                             timeline_svg(name, which, costs, rings)});
    table.rows.push_back(timeline_row(name, which, costs, rings));
  }
  made.tables.push_back(std::move(table));
  return made;
}

// ---- Figures 12 to 15, Table II ----

Result<Reproduction> table_2(const ReproduceSettings&) {
  Table table = {.title = "Memory and delay against Pre, published / ours, in percent",
                 .columns = {"network"},
                 .rows = {},
                 .note = fmt::format("{} Sync needs less memory than in the paper: its rings hold "
                                     "two neighbouring layers, not twice the largest.",
                                     by_equation)};
  for (const Compared& how : compared) {
    table.columns.push_back(fmt::format("{}: memory", how.name));
    table.columns.push_back(fmt::format("{}: delay", how.name));
  }
  for (const PublishedNetwork& known : published) {
    const auto it = paper_network(known);
    if (!it) return tl::make_unexpected(it.error());
    std::vector<std::string> row = {known.title};
    for (size_t i = 0; i < compared.size(); ++i) {
      const PublishedChange ours = change(*it, compared[i]);
      row.push_back(fmt::format("{:.1f} / {:.1f}", known.changes[i].memory, ours.memory));
      row.push_back(fmt::format("{:+.1f} / {:+.1f}", known.changes[i].delay, ours.delay));
    }
    table.rows.push_back(std::move(row));
  }
  return Reproduction{.tables = {std::move(table)},
                      .pictures = {},
                      .lacks = {"This machine's: `bench/pipelines.py` measures the five networks "
                                "(docs/explanation/benchmarks.md)."}};
}

/// A line of one point: pipelines are compared by where they lie.
Result<Reproduction> figure_12(const ReproduceSettings&) {
  Reproduction made;
  for (const PublishedNetwork& known : published) {
    const auto it = paper_network(known);
    if (!it) return tl::make_unexpected(it.error());
    const double all_mib = 2 * mebibytes(it->network.folded_bytes());
    LineChart chart = {.title = fmt::format("{}: memory and delay", known.title),
                       .x_label = "MiB for weights",
                       .y_label = "delay, ms",
                       .lines = {{"Pre", {{all_mib, it->kernels_ms}}}}};
    for (const Compared& how : compared) {
      const PublishedChange ours = change(*it, how);
      chart.lines.push_back(
          {how.name,
           {{all_mib * (1 + ours.memory / 100), it->kernels_ms * (1 + ours.delay / 100)}}});
    }
    made.pictures.push_back({fmt::format("figure-12-{}", known.name), svg_of(chart)});
  }
  return made;
}

/// The paper's search: every window from the smallest to the whole model, in steps.
struct Sweep {
  ChartLine line;
  uint64_t least_delay_ns = 0;
  /// The first window with the least delay.
  uint64_t window_bytes = 0;
};

Sweep sweep(const std::string& name, Pipeline which, const PaperNetwork& it, uint64_t step_bytes) {
  Sweep swept = {.line = {.name = name, .points = {}}, .least_delay_ns = UINT64_MAX};
  const Rings least = pipeline::smallest_rings(which, pipeline::work_units(it.costs));
  // The figure ends where nothing more happens.
  const uint64_t end_bytes = it.network.folded_bytes() / 2;
  for (uint64_t grown = 0; least.host_bytes + grown < end_bytes; grown += step_bytes) {
    const Rings rings = {least.host_bytes + grown,
                         least.device_bytes == 0 ? 0 : least.device_bytes + grown};
    const uint64_t delay = pipeline::delay_ns(which, it.costs, rings);
    swept.line.points.emplace_back(mebibytes(rings.bytes()), milliseconds(delay));
    if (delay >= swept.least_delay_ns) continue;
    swept.least_delay_ns = delay;
    swept.window_bytes = rings.bytes();
  }
  return swept;
}

Result<Reproduction> figure_13(const ReproduceSettings& settings) {
  const uint64_t step_bytes = settings.is_quick ? 4 * MiB : 1 * MiB;
  Reproduction made;
  Table table = {.title = "The smallest window with the least delay, by both searches, MiB",
                 .columns = {"network", "pipeline", "published", "least delay, ms",
                             "the paper's sweep", "ours, the same delay", "ours, 0.4 % more"},
                 .rows = {},
                 .note = fmt::format("The sweep takes steps of {} MiB in each buffer. {}",
                                     step_bytes / MiB, by_equation)};
  for (const PublishedNetwork& known : published) {
    const auto it = paper_network(known);
    if (!it) return tl::make_unexpected(it.error());
    LineChart chart = {.title = fmt::format("{}: delay by window", known.title),
                       .x_label = "MiB for weights",
                       .y_label = "delay, ms",
                       .lines = {}};
    for (const size_t which : {size_t{3}, size_t{5}}) {
      const Compared& how = compared[which];
      const Sweep swept = sweep(how.name, how.pipeline, *it, step_bytes);
      const auto same =
          pipeline::smallest_rings_for_delay(how.pipeline, it->costs, swept.least_delay_ns);
      const double published_mib = 2 * known.model_mib * (1 + known.changes[which].memory / 100);
      table.rows.push_back({known.title, how.name, fmt::format("{:.1f}", published_mib),
                            fmt::format("{:.1f}", milliseconds(swept.least_delay_ns)),
                            fmt::format("{:.1f}", mebibytes(swept.window_bytes)),
                            same ? fmt::format("{:.1f}", mebibytes(same->bytes())) : "-",
                            fmt::format("{:.1f}", mebibytes(rings_of(how, it->costs).bytes()))});
      chart.lines.push_back(swept.line);
    }
    const auto& points = chart.lines.front().points;
    chart.lines.push_back(
        {"Pre",
         {{points.front().first, it->kernels_ms}, {points.back().first, it->kernels_ms}},
         true});
    made.pictures.push_back({fmt::format("figure-13-{}", known.name), svg_of(chart)});
  }
  made.tables.push_back(std::move(table));
  return made;
}

/// 2S, 2S-MD and, if `has_pre`, Pre by input resolution: what `value_of` a network's costs and
/// rings is.
template <typename Value>
Result<Reproduction> by_resolution(const ReproduceSettings& settings, const std::string& figure,
                                   const std::string& unit, bool has_pre, Value value_of) {
  Reproduction made;
  Table table = {.title = unit,
                 .columns = {"network", "input", "2S", "2S-MD"},
                 .rows = {},
                 .note = by_equation};
  if (has_pre) table.columns.emplace_back("Pre");
  for (const PublishedNetwork& known : published) {
    const auto it = paper_network(known);
    if (!it) return tl::make_unexpected(it.error());
    LineChart chart = {.title = fmt::format("{} by input resolution", known.title),
                       .x_label = "pixels of a side",
                       .y_label = unit,
                       .lines = {{"2S", {}}, {"2S-MD", {}}}};
    if (has_pre) chart.lines.push_back({"Pre", {}, true});
    for (const uint32_t side : sides(settings, known)) {
      const auto costs = costs_at(*it, side);
      if (!costs) return tl::make_unexpected(costs.error());
      std::vector<double> values = {value_of(*costs, rings_of(compared[4], *costs)),
                                    value_of(*costs, rings_of(compared[5], *costs))};
      if (has_pre) values.push_back(milliseconds(sum_of(*costs, &UnitCosts::kernel_ns)));
      table.rows.push_back({known.title, fmt::format("{0}x{0}", side)});
      for (size_t i = 0; i < values.size(); ++i) {
        chart.lines[i].points.emplace_back(side, values[i]);
        table.rows.back().push_back(fmt::format("{:.1f}", values[i]));
      }
    }
    made.pictures.push_back({fmt::format("{}-{}", figure, known.name), svg_of(chart)});
  }
  made.tables.push_back(std::move(table));
  return made;
}

Result<Reproduction> figure_14(const ReproduceSettings& settings) {
  return by_resolution(settings, "figure-14", "delay, ms", true,
                       [](const Costs& costs, const Rings& rings) {
                         return milliseconds(pipeline::delay_ns(Pipeline::two_stage, costs, rings));
                       });
}

Result<Reproduction> figure_15(const ReproduceSettings& settings) {
  return by_resolution(settings, "figure-15", "MiB for weights", false,
                       [](const Costs&, const Rings& rings) { return mebibytes(rings.bytes()); });
}

}  // namespace

Paper demand_layering_paper() {
  return {.name = "demand-layering",
          .title = "Demand Layering for Real-Time DNN Inference with Minimized Memory Usage",
          .figures = {{"table-1", "the networks", table_1},
                      {"figure-4", "times and sizes of YOLOv4's layers", figure_4},
                      {"figure-5", "how times and sizes are distributed", figure_5},
                      {"figure-6", "total times by input resolution", figure_6},
                      {"figure-10", "timelines of three pipelines", figure_10},
                      {"figure-11", "timelines of three and of two stages", figure_11},
                      {"figure-12", "memory and delay of each pipeline", figure_12},
                      {"figure-13", "delay by window, and the smallest windows", figure_13},
                      {"table-2", "memory and delay against Pre", table_2},
                      {"figure-14", "delay by input resolution", figure_14},
                      {"figure-15", "memory by input resolution", figure_15}}};
}

}  // namespace weightpager::tools
