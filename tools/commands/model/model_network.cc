// Makes, packs and shows Darknet networks for `weightpager model`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "pager/model/header_reader.h"
#include "runtime/network/packed_file.h"
#include "runtime/network/parser.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/network/synthetic/make_network.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan/planned_operations.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/model/model.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {
namespace {

using model::printable;
using network::Network;
using network::Shape;

constexpr int network_schema_version = 1;

size_t layers_with_weights(const Network& shown) {
  return static_cast<size_t>(
      std::count_if(shown.layers.begin(), shown.layers.end(),
                    [](const network::Layer& it) { return it.weights() > 0; }));
}

std::string shape_text(const Shape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

// --- show ---------------------------------------------------------------------------------------

/// The inputs of a layer; "" in the usual case, where the input is the layer before.
std::string other_inputs(const network::Layer& layer, size_t number) {
  if (layer.inputs.size() == 1 && (number == 0 || layer.inputs.front() == number - 1)) return "";
  return fmt::format("{}", fmt::join(layer.inputs, ", "));
}

void print_table(const Network& shown, const std::string& path) {
  fmt::print("network       {}\n", printable(path));
  fmt::print("input         {} (channels, height, width)\n", shape_text(shown.input));
  fmt::print("layers        {}, {} with weights\n", shown.layers.size(),
             layers_with_weights(shown));
  fmt::print("weights file  {} ({} bytes)\n", format_size(shown.weights_file_bytes()),
             shown.weights_file_bytes());
  fmt::print("folded        {} ({} bytes), the largest layer {}\n",
             format_size(shown.folded_bytes()), shown.folded_bytes(),
             format_size(shown.largest_folded_bytes()));
  fmt::print("\nlayer  {:<13} {:>14} {:>14}  {:>10}  {}\n", "kind", "input", "output", "weights",
             "from");
  for (size_t number = 0; number < shown.layers.size(); ++number) {
    const network::Layer& layer = shown.layers[number];
    const std::string line = fmt::format(
        "{:>5}  {:<13} {:>14} {:>14}  {:>10}  {}", number, section_name(layer.operation),
        shape_text(layer.input), shape_text(layer.output),
        layer.folded_bytes() == 0 ? "" : format_size(layer.folded_bytes()),
        other_inputs(layer, number));
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

nlohmann::ordered_json shape_json(const Shape& shape) {
  return {shape.channels, shape.height, shape.width};
}

void print_json(const Network& shown) {
  nlohmann::ordered_json json{{"schema_version", network_schema_version},
                              {"format", "darknet"},
                              {"input", shape_json(shown.input)},
                              {"weights_file_bytes", shown.weights_file_bytes()},
                              {"folded_bytes", shown.folded_bytes()},
                              {"largest_folded_bytes", shown.largest_folded_bytes()},
                              {"layers", nlohmann::json::array()}};
  for (const network::Layer& layer : shown.layers) {
    nlohmann::ordered_json inputs = nlohmann::json::array();
    for (const uint32_t input : layer.inputs)
      inputs.push_back(input == network::network_input ? -1 : static_cast<int64_t>(input));
    json["layers"].push_back({{"kind", section_name(layer.operation)},
                              {"line", layer.line},
                              {"inputs", inputs},
                              {"input", shape_json(layer.input)},
                              {"output", shape_json(layer.output)},
                              {"raw_bytes", layer.raw_bytes()},
                              {"folded_bytes", layer.folded_bytes()}});
  }
  fmt::print("{}\n", json.dump(2));
}

// --- pack ---------------------------------------------------------------------------------------

}  // namespace

Command model_pack_description() {
  return {
      .name = "weightpager model pack",
      .purpose =
          "Makes a Darknet network's weights ready to be read a layer at a time:\n"
          "aligned, with checksums, batch normalization folded.\n",
      .usage = "  weightpager model pack [OPTIONS] NET.cfg NET.weights|NET.packed -o FILE\n",
      .options = {{'o', "output", "FILE", "where to write"},
                  {0, "plan", "FILE", "pack for the plan that `weightpager plan -o FILE` wrote"},
                  resolution_option(),
                  {'f', "force", "", "replace what is there"}},
      .examples = "  weightpager model pack yolov4.cfg yolov4.weights -o yolov4.packed\n",
      .exit_status = "  0 packed, 1 it could not be read or written, 2 misuse\n"};
}

int show_network(const std::string& path, bool as_json) {
  const Result<Network> shown = network::read_network(path);
  if (!shown) return failure(shown.error());
  if (as_json)
    print_json(*shown);
  else
    print_table(*shown, path);
  return exit_success;
}

int make_network_files(const Arguments& arguments, uint64_t seed) {
  for (const std::string option : {"size", "arch", "experts", "experts-used", "type", "format"}) {
    if (arguments.has(option))
      return misuse({fmt::format("--{}: a network that is made by name has its own", option),
                     "give --net, -o, --seed and --force only"});
  }
  if (const Result<std::string> known = network::make_description(*arguments.value("net")); !known)
    return misuse(known.error());
  ProgressLine line;
  network::MakeNetworkOptions options;
  options.name = *arguments.value("net");
  options.directory = *arguments.value("output");
  options.seed = seed;
  options.overwrite = arguments.has("force");
  options.on_progress = [&](uint64_t written, uint64_t total) { line.show_bytes(written, total); };
  const Result<network::MadeNetwork> made = network::make_network(options);
  line.clear();
  if (!made) return failure(made.error());
  fmt::print("{}, {}: {}, {} layers ({} with weights), input {}\n", made->description_path,
             made->weights_path, format_size(made->network.weights_file_bytes()),
             made->network.layers.size(), layers_with_weights(made->network),
             shape_text(made->network.input));
  return exit_success;
}

namespace {

int pack(const Arguments& arguments) {
  if (arguments.operands().size() != 2 || !arguments.has("output"))
    return misuse({"model pack: expected NET.cfg, NET.weights and -o FILE",
                   "example: weightpager model pack yolov4.cfg yolov4.weights -o yolov4.packed"});
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return misuse(resolution.error());
  const Result<Network> packed = network::read_network(arguments.operands()[0], *resolution);
  if (!packed) return failure(packed.error());

  ProgressLine line;
  network::PackOptions options{.weights_path = arguments.operands()[1],
                               .output_path = *arguments.value("output")};
  std::optional<plan::PlannedOperations> operations;
  if (const auto plan_path = arguments.value("plan")) {
    const auto file = plan::read_plan(*plan_path, *packed);
    if (!file) return failure(file.error());
    auto made = plan::PlannedOperations::make(*packed, file->plan.choices, file->threads);
    if (!made) return failure(made.error());
    operations = std::move(*made);
    options = plan::packing_for(*operations, options.weights_path, options.output_path);
  }
  options.overwrite = arguments.has("force");
  options.on_progress = [&](uint64_t written, uint64_t total) { line.show_bytes(written, total); };
  const Result<uint64_t> file_bytes = network::pack_weights(*packed, options);
  line.clear();
  if (!file_bytes) return failure(file_bytes.error());
  fmt::print("{}: {}, {} layers ({} with weights), the largest {}\n", options.output_path,
             format_size(*file_bytes), packed->layers.size(), layers_with_weights(*packed),
             format_size(packed->largest_folded_bytes()));
  return exit_success;
}

}  // namespace

int model_pack_command(const std::vector<std::string>& words) {
  return carry_out(model_pack_description(), words, pack);
}

}  // namespace weightpager::tools
