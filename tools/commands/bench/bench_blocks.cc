// `weightpager bench blocks`: fits SwapNet's delay model for this machine to a network's layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/budget/delay_model.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/network/parser.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/bench/bench.h"
#include "tools/formats/delay_model_file.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

using budget::FittedModel;
using budget::Sample;
using network::Network;

const char* const blocks_example = "weightpager bench blocks yolov4.cfg yolov4.weights";
constexpr size_t residuals_shown = 3;

}  // namespace

Command bench_blocks_description() {
  return {
      .name = "weightpager bench blocks",
      .purpose =
          "Measures the time of reading and computing each layer of a Darknet network here, and\n"
          "fits SwapNet's delay model to it: time by bytes, tensors and operations.\n",
      .usage = "  weightpager bench blocks NET.cfg NET.weights [OPTIONS]\n",
      .options = {{0, "repeats", "N", "measurements of each layer; the median counts (9)"},
                  {0, "threads", "N", "threads that compute (one per processor)"},
                  {0, "json", "FILE", "write model and samples, for plan budgets --profile"}},
      .examples =
          "  weightpager model make --net yolov4 -o nets\n"
          "  weightpager bench blocks nets/yolov4.cfg nets/yolov4.weights --json here.json\n",
      .exit_status = "  0 measured, 1 something failed, 2 misuse\n"};
}

namespace {

struct BlocksOptions {
  std::string cfg_path;
  std::string weights_path;
  std::string json_path;
  int repeats = 0;
  int threads = 0;
};

Result<BlocksOptions> read_blocks_options(const Arguments& arguments) {
  if (arguments.operands().size() != 2) {
    return fail("expected a .cfg and its weights", blocks_example);
  }
  BlocksOptions options = {.cfg_path = arguments.operands()[0],
                           .weights_path = arguments.operands()[1],
                           .json_path = arguments.value("json").value_or("")};
  const auto repeats = parse_count(arguments.value("repeats").value_or("9"), "--repeats", 100'000);
  if (!repeats) return tl::make_unexpected(repeats.error());
  options.repeats = static_cast<int>(*repeats);
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  options.threads = *threads;
  return options;
}

/// Prints the layers that the model is furthest from. `layers`: the layer of each residual.
void print_residuals(const Network& network, const std::vector<double>& residuals_ns,
                     const std::vector<size_t>& layers) {
  std::vector<size_t> order(residuals_ns.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(residuals_ns[a]) > std::abs(residuals_ns[b]);
  });
  order.resize(std::min(order.size(), residuals_shown));
  fmt::print("     furthest from it:");
  const char* separator = " ";
  for (const size_t i : order) {
    fmt::print("{}layer {} {} {:+.3f} ms", separator, layers[i],
               section_name(network.layers[layers[i]].operation), residuals_ns[i] / 1e6);
    separator = ", ";
  }
  fmt::print("\n");
}

void print_model(const Network& network, const std::vector<Sample>& samples,
                 const FittedModel& fitted) {
  std::vector<size_t> all, with_bytes;
  for (size_t i = 0; i < samples.size(); ++i) {
    all.push_back(i);
    if (samples[i].work.size_bytes > 0) with_bytes.push_back(i);
  }
  const budget::DelayModel& model = fitted.model;
  fmt::print("in   {:.4f} ns per byte, {:.2f} us per tensor, {:.2f} us per read; R2 {:.4f} of {}\n",
             model.read_ns_per_byte, model.read_ns_per_tensor / 1e3, model.read_ns_per_block / 1e3,
             fitted.read.r_squared, fitted.read.samples);
  print_residuals(network, fitted.read.residuals_ns, with_bytes);
  fmt::print("ex   {:.6f} ns per operation, {:.2f} us per layer; R2 {:.4f} of {}\n",
             model.kernel_ns_per_operation, model.kernel_ns_per_layer / 1e3,
             fitted.kernel.r_squared, fitted.kernel.samples);
  print_residuals(network, fitted.kernel.residuals_ns, all);
  fmt::print("out  nothing: space in a ring is free as soon as a layer is computed\n");
}

int run_blocks(const BlocksOptions& options) {
  const auto network = network::read_network(options.cfg_path);
  if (!network) return failure(network.error());
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  const auto samples =
      infer::measure_samples(*network, options.weights_path, options.threads, options.repeats);
  if (!samples) return failure(samples.error());
  const auto fitted = budget::fit_delays(*samples);
  if (!fitted) return failure(fitted.error());
  fmt::print("{}: {} layers, {} threads, medians of {}\n\n", options.cfg_path,
             network->layers.size(), options.threads, options.repeats);
  print_model(*network, *samples, *fitted);
  if (*report) {
    const Status written = (*report)->commit(delay_model_json(*samples, *fitted));
    if (!written) return failure(written.error());
  }
  return exit_success;
}

}  // namespace

int bench_blocks_command(const std::vector<std::string>& words) {
  return carry_out(bench_blocks_description(), words, read_blocks_options, run_blocks);
}

}  // namespace weightpager::tools
