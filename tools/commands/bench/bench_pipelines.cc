// `weightpager bench pipelines`: compares memory with delay for a user's own network and machine.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "runtime/infer/pipeline_comparison.h"
#include "runtime/network/parser.h"
#include "tools/arguments/device_argument.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using infer::Comparison;
using infer::Configuration;
using network::Network;

constexpr int pipelines_schema_version = 1;
const char* const pipelines_example = "weightpager bench pipelines yolov4.cfg yolov4.weights";

}  // namespace

Command bench_pipelines_description() {
  return {.name = "weightpager bench pipelines",
          .purpose =
              "Runs a Darknet network in every pipeline of Demand Layering, and shows the delay\n"
              "for each amount of memory, and the smallest window without delay.\n",
          .usage = "  weightpager bench pipelines NET.cfg NET.weights [OPTIONS]\n",
          .options = {{0, "inferences", "N", "inferences of each configuration (20)"},
                      {0, "windows", "SIZE,…", "more windows, with layers in tiles (4MiB,9MiB)"},
                      resolutions_option(),
                      device_option(),
                      {0, "threads", "N", "threads that compute (one per processor)"},
                      {0, "json", "FILE", "write all figures to FILE"},
                      {0, "trace", "FILE", "write a timeline of the last inference of each"}},
          .examples =
              "  weightpager model make --net yolov4 -o nets\n"
              "  weightpager bench pipelines nets/yolov4.cfg nets/yolov4.weights\n"
              "  weightpager bench pipelines nets/yolov4.cfg nets/yolov4.weights \\\n"
              "    --resolution 320,416,608 --inferences 5\n",
          .exit_status = "  0 measured, 1 something failed, 2 misuse\n"};
}

namespace {

struct PipelinesOptions {
  std::string cfg_path;
  infer::ComparisonOptions comparison;
  /// Empty: the .cfg's own size.
  std::vector<network::Resolution> resolutions;
  std::string json_path;
  std::string trace_path;
};

Result<PipelinesOptions> read_pipelines_options(const Arguments& arguments) {
  if (arguments.operands().size() != 2) {
    return fail("expected a .cfg and its weights", pipelines_example);
  }
  PipelinesOptions options;
  options.cfg_path = arguments.operands()[0];
  options.comparison.weights_path = arguments.operands()[1];
  options.json_path = arguments.value("json").value_or("");
  options.trace_path = arguments.value("trace").value_or("");
  const auto device = parse_device(arguments);
  if (!device) return tl::make_unexpected(device.error());
  options.comparison.device = *device;
  const auto inferences =
      parse_count(arguments.value("inferences").value_or("20"), "--inferences", 1'000'000);
  if (!inferences) return tl::make_unexpected(inferences.error());
  options.comparison.inferences = *inferences;
  options.comparison.inferences_per_turn = std::min(*inferences, 5u);
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  options.comparison.threads = *threads;
  auto windows = parse_sizes(arguments.value("windows").value_or("4MiB,9MiB"), "--windows");
  if (!windows) return forward_error(std::move(windows));
  options.comparison.tiled_windows_bytes = std::move(*windows);
  auto resolutions = parse_resolutions(arguments);
  if (!resolutions) return forward_error(std::move(resolutions));
  options.resolutions = std::move(*resolutions);
  if (options.resolutions.size() > 1 && !options.trace_path.empty()) {
    return fail("--trace shows one size of pictures", "give --resolution one size");
  }
  return options;
}

double overhead_percent(const Comparison& comparison, const Configuration& it) {
  const auto least = static_cast<double>(comparison.configurations.front().median_ns());
  return 100 * (static_cast<double>(it.median_ns()) / least - 1);
}

/// By how much the delay exceeds the time of the same reads beside a computation that does not need
/// them, in percent. "" if that was not measured.
std::string over_floor(const Configuration& it) {
  if (it.floor_ns == 0) return "";
  const auto floor_ns = static_cast<double>(it.floor_ns);
  return fmt::format("{:+.1f}%", 100 * (static_cast<double>(it.median_ns()) / floor_ns - 1));
}

double saved_percent(const Comparison& comparison, const Configuration& it) {
  const auto all = static_cast<double>(comparison.configurations.front().window_bytes);
  return 100 * (1 - static_cast<double>(it.window_bytes) / all);
}

/// There is a column for the window's share of a GPU's memory only if a GPU computes.
void print_rows(const Comparison& comparison, bool is_gpu) {
  fmt::print("{:<11} {:>6} {:>10} {:>7} {:>9} {:>10} {:>17} {:>9} {:>10} {:>9}{}\n", "pipeline",
             "pieces", "window MiB", "saved", "read MiB", "delay ms", "min - max", "delay",
             "over reads", "predicted", is_gpu ? "    GPU MiB" : "");
  for (const Configuration& it : comparison.configurations) {
    fmt::print(
        "{:<11} {:>6} {:>10.2f} {:>6.1f}% {:>9.1f} {:>10.1f} {:>17} {:>+8.1f}% {:>10} {:>9}{}\n",
        it.name, it.pieces, mebibytes(it.window_bytes), saved_percent(comparison, it),
        mebibytes(it.read_bytes), milliseconds(it.median_ns()),
        fmt::format("{:.1f} - {:.1f}", milliseconds(it.delays_ns.front()),
                    milliseconds(it.delays_ns.back())),
        overhead_percent(comparison, it), over_floor(it),
        it.predicted_ns == 0 ? "" : fmt::format("{:.1f}", milliseconds(it.predicted_ns)),
        is_gpu ? fmt::format(" {:>10.2f}", mebibytes(it.device_memory.weights_bytes)) : "");
  }
}

/// Memory to the right, delay upwards, both from 0; one letter for each configuration.
void print_picture(const Comparison& comparison) {
  constexpr size_t columns = 64;
  constexpr size_t rows = 14;
  uint64_t most_bytes = 1, most_ns = 1;
  for (const Configuration& it : comparison.configurations) {
    most_bytes = std::max(most_bytes, it.window_bytes);
    most_ns = std::max(most_ns, it.median_ns());
  }
  std::vector<std::string> picture(rows, std::string(columns, ' '));
  std::string legend;
  char letter = 'A';
  for (const Configuration& it : comparison.configurations) {
    const size_t column = it.window_bytes * (columns - 1) / most_bytes;
    const size_t row = rows - 1 - it.median_ns() * (rows - 1) / most_ns;
    char& place = picture[row][column];
    place = place == ' ' ? letter : '*';
    legend += fmt::format("  {} {} {:.1f} MiB\n", letter, it.name, mebibytes(it.window_bytes));
    letter = letter == 'Z' ? 'a' : static_cast<char>(letter + 1);
  }
  fmt::print("\n{:>8.0f} ms\n", milliseconds(most_ns));
  for (const std::string& row : picture) fmt::print("{:>10}{}\n", '|', row);
  fmt::print("{:>10}{:-<{}} {:.0f} MiB for weights\n", '+', "", columns, mebibytes(most_bytes));
  fmt::print("{}  * several in one place\n", legend);
}

/// Prints the smallest window without delay: its median exceeds that of Pre by no more than the
/// runs of Pre differ from each other.
void print_advice(const Comparison& comparison) {
  const Configuration& pre = comparison.configurations.front();
  const uint64_t spread_ns = pre.delays_ns[pre.delays_ns.size() * 3 / 4] - pre.median_ns();
  const Configuration* smallest = nullptr;
  for (const Configuration& it : comparison.configurations) {
    if (it.median_ns() > pre.median_ns() + std::max(spread_ns, pre.median_ns() / 200)) continue;
    if (smallest == nullptr || it.window_bytes < smallest->window_bytes) smallest = &it;
  }
  if (smallest == nullptr || smallest == &pre) {
    fmt::print("\nno window smaller than the model was without delay\n");
    return;
  }
  fmt::print(
      "\nthe smallest window without delay here: {:.2f} MiB ({}), {:.1f}% less than all weights\n",
      mebibytes(smallest->window_bytes), smallest->name, saved_percent(comparison, *smallest));
}

/// The network with pictures of one size, and what was measured.
struct MeasuredSize {
  Network network;
  Comparison comparison;
};

nlohmann::ordered_json json_of_machine(const PipelinesOptions& options) {
  utsname system{};
  uname(&system);
  return {{"schema_version", pipelines_schema_version},
          {"benchmark", "pipelines"},
          {"network", options.cfg_path},
          {"weights", options.comparison.weights_path},
          {"kernel", system.release},
          {"device", device_word(options.comparison.device)},
          {"threads", options.comparison.threads}};
}

nlohmann::ordered_json json_of_size(const MeasuredSize& measured) {
  const auto& [network, comparison] = measured;
  nlohmann::ordered_json json = {
      {"input", {network.input.channels, network.input.height, network.input.width}},
      {"reader", comparison.reader},
      {"direct_reads", comparison.is_direct},
      {"layers", network.layers.size()},
      {"folded_bytes", network.folded_bytes()},
      {"activation_bytes", comparison.activation_bytes}};
  for (const Configuration& it : comparison.configurations) {
    json["configurations"].push_back({{"name", it.name},
                                      {"pipeline", pipeline::name(it.pipeline)},
                                      {"window_bytes", it.window_bytes},
                                      {"pinned_bytes", it.pinned_bytes},
                                      {"device_weights_bytes", it.device_memory.weights_bytes},
                                      {"device_bytes", it.device_memory.all_bytes},
                                      {"pieces", it.pieces},
                                      {"read_bytes", it.read_bytes},
                                      {"predicted_ns", it.predicted_ns},
                                      {"floor_ns", it.floor_ns},
                                      {"delay_ns_median", it.median_ns()},
                                      {"delays_ns", it.delays_ns}});
  }
  for (const pipeline::UnitCosts& it : comparison.layer_costs) {
    json["layer_costs"].push_back({{"size_bytes", it.size_bytes},
                                   {"read_ns", it.read_ns},
                                   {"copy_ns", it.copy_ns},
                                   {"kernel_ns", it.kernel_ns}});
  }
  return json;
}

/// What was measured with one size lies beside the machine; several sizes are a list.
nlohmann::ordered_json to_json(const std::vector<MeasuredSize>& sizes,
                               const PipelinesOptions& options) {
  nlohmann::ordered_json json = json_of_machine(options);
  if (sizes.size() == 1) {
    json.update(json_of_size(sizes.front()));
    return json;
  }
  for (const MeasuredSize& it : sizes) json["resolutions"].push_back(json_of_size(it));
  return json;
}

std::string computed_with(const infer::ComparisonOptions& options) {
  if (options.device == infer::DeviceKind::cuda) return "on the GPU";
  return fmt::format("{} threads", options.threads);
}

void print_size(const MeasuredSize& measured, const PipelinesOptions& options) {
  const auto& [network, comparison] = measured;
  fmt::print(
      "{}, {}x{}: {} layers, {:.1f} MiB of weights (largest layer {:.1f}), {:.1f} MiB of "
      "activations; {}, {}{}\n\n",
      options.cfg_path, network.input.width, network.input.height, network.layers.size(),
      mebibytes(network.folded_bytes()), mebibytes(network.largest_folded_bytes()),
      mebibytes(comparison.activation_bytes), computed_with(options.comparison), comparison.reader,
      comparison.is_direct ? ", direct reads" : ", reads through the page cache");
  print_rows(comparison, options.comparison.device == infer::DeviceKind::cuda);
  if (options.resolutions.size() <= 1) print_picture(comparison);
  print_advice(comparison);
}

/// The times of all layers, and three pipelines, by size.
void print_sizes(const std::vector<MeasuredSize>& sizes) {
  fmt::print("\n{:<11} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>11}\n", "resolution", "reads ms",
             "copies ms", "kernels ms", "Pre ms", "2S ms", "2S-MD ms", "2S-MD MiB");
  for (const auto& [network, comparison] : sizes) {
    const pipeline::UnitCosts sums = comparison.all_layers();
    const Configuration* const without_delay = comparison.find("2S-MD");
    fmt::print("{:<11} {:>9.1f} {:>9.1f} {:>10.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>11.2f}\n",
               fmt::format("{}x{}", network.input.width, network.input.height),
               milliseconds(sums.read_ns), milliseconds(sums.copy_ns), milliseconds(sums.kernel_ns),
               milliseconds(comparison.find("Pre")->median_ns()),
               milliseconds(comparison.find("2S")->median_ns()),
               milliseconds(without_delay->median_ns()), mebibytes(without_delay->window_bytes));
  }
}

/// The network in every size that was asked for. A size that it cannot take is found before
/// anything is measured.
Result<std::vector<MeasuredSize>> read_networks(const PipelinesOptions& options) {
  std::vector<std::optional<network::Resolution>> wanted(options.resolutions.begin(),
                                                         options.resolutions.end());
  if (wanted.empty()) wanted.emplace_back();
  std::vector<MeasuredSize> sizes;
  for (const auto& resolution : wanted) {
    auto network = network::read_network(options.cfg_path, resolution);
    if (!network) return forward_error(std::move(network));
    sizes.push_back({.network = std::move(*network), .comparison = {}});
  }
  return sizes;
}

Status measure_size(MeasuredSize& size, PipelinesOptions& options) {
  const bool is_terminal = isatty(STDERR_FILENO) != 0;
  options.comparison.on_progress = [&](const std::string& text) {
    if (is_terminal) print(stderr, fmt::format("\r\033[K{}", text));
  };
  auto comparison = infer::compare_pipelines(size.network, options.comparison);
  if (is_terminal) print(stderr, "\r\033[K");
  if (!comparison) return forward_error(std::move(comparison));
  size.comparison = std::move(*comparison);
  return {};
}

std::string trace_of(const MeasuredSize& measured) {
  std::vector<infer::TracedInference> inferences;
  for (const Configuration& it : measured.comparison.configurations) inferences.push_back(it.last);
  return infer::chrome_trace(measured.network, inferences);
}

int run_pipelines(PipelinesOptions options) {
  auto sizes = read_networks(options);
  if (!sizes) return failure(sizes.error());
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  auto trace = ReportFile::create_if_asked(options.trace_path);
  if (!trace) return failure(trace.error());
  for (MeasuredSize& size : *sizes) {
    if (Status measured = measure_size(size, options); !measured) return failure(measured.error());
    if (&size != &sizes->front()) fmt::print("\n");
    print_size(size, options);
  }
  if (sizes->size() > 1) print_sizes(*sizes);
  if (*report) {
    const Status written = (*report)->commit(to_json(*sizes, options).dump(1) + "\n");
    if (!written) return failure(written.error());
  }
  if (*trace) {
    if (Status written = (*trace)->commit(trace_of(sizes->front())); !written)
      return failure(written.error());
  }
  return exit_success;
}

}  // namespace

int bench_pipelines_command(const std::vector<std::string>& words) {
  return carry_out(bench_pipelines_description(), words, read_pipelines_options, run_pipelines);
}

}  // namespace weightpager::tools
