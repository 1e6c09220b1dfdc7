#include "tools/commands/infer/infer.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "pager/base/log.h"
#include "pager/base/memory_limit.h"
#include "pager/base/text_lines.h"
#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/control/control_socket.h"
#include "pager/model/header_reader.h"
#include "runtime/infer/detections.h"
#include "runtime/infer/image.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/infer/trace.h"
#include "runtime/network/parser.h"
#include "runtime/plan/plan_file.h"
#include "tools/arguments/by_argument.h"
#include "tools/arguments/device_argument.h"
#include "tools/arguments/http_option.h"
#include "tools/arguments/number_argument.h"
#include "tools/arguments/resolution_argument.h"
#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/infer/inference_progress.h"
#include "tools/formats/delay_model_file.h"
#include "tools/live/network_answers.h"
#include "tools/probes/memory_beside.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using infer::Detection;
using infer::Guess;
using infer::Image;
using infer::Inference;
using model::printable;
using network::Network;
using pipeline::Pipeline;

constexpr int infer_schema_version = 1;
constexpr uint64_t names_bytes_max = 16 * MiB;
const char* const infer_example =
    "weightpager infer yolov4.cfg yolov4.weights dog.jpg --window 18MiB";

struct PipelineWord {
  const char* word;
  Pipeline pipeline;
};
constexpr PipelineWord pipeline_words[] = {{"pre", Pipeline::preload},
                                           {"seq", Pipeline::sequential},
                                           {"sync", Pipeline::synchronous},
                                           {"async", Pipeline::asynchronous},
                                           {"2s", Pipeline::two_stage}};

std::vector<std::string> pipeline_names() {
  std::vector<std::string> names;
  for (const PipelineWord& it : pipeline_words) names.emplace_back(it.word);
  return names;
}

}  // namespace

Command infer_description() {
  return {
      .name = "weightpager infer",
      .purpose = "Runs a Darknet network on pictures, in a small part of its weights' memory.\n",
      .usage = "  weightpager infer NET.cfg NET.weights IMAGE... [OPTIONS]\n",
      .options = {{'w', "window", "SIZE",
                   "memory for weights: 18MiB, or a share of them: 5%\n"
                   "(the least that the pipeline takes; less cuts layers into tiles)"},
                  {'p', "pipeline", "NAME",
                   "pre: all weights in memory\n"
                   "seq: read, copy, compute a layer, then the next\n"
                   "sync, async: the three overlap, in lock step or not\n"
                   "2s: compute straight from the memory that weights are read into\n"
                   "(2s; with --device cuda, async: there 2s would compute over the bus)",
                   pipeline_names()},
                  device_option(),
                  resolution_option(),
                  {0, "tile", "SIZE", "cut layers larger than this (as the window needs it)"},
                  by_option(),
                  {0, "profile", "FILE",
                   "--by blocks: plan them by these costs, from `bench blocks --json FILE`"},
                  {0, "plan", "FILE",
                   "run as `weightpager plan -o FILE` has planned, from weights that\n"
                   "`model pack --plan` has packed"},
                  {0, "batch", "N", "pictures that one pass over the weights serves (1)"},
                  {0, "repeat", "N", "passes in a row for each picture, to time them (1)"},
                  {0, "threads", "N",
                   "threads that compute (one per processor); the same number gives the same\n"
                   "outputs, bit for bit; with another number the last bits may differ"},
                  {0, "names", "FILE", "names of the classes, one in a line"},
                  {0, "threshold", "P", "detectors: show boxes at least this probable (0.5)"},
                  {0, "overlap", "P", "detectors: of boxes that overlap by more, keep one (0.45)"},
                  {0, "top", "N", "classifiers: show so many classes (5)"},
                  {0, "json", "FILE", "write results and figures to FILE"},
                  {0, "trace", "FILE",
                   "write a timeline of the last pass: reads, copies, computing"},
                  http_option(),
                  {'q', "quiet", "", "print no summary and no notices"}},
      .examples = std::string("  ") + infer_example +
                  "\n"
                  "  weightpager infer resnet152.cfg resnet152.packed *.jpg --window 5% -p 2s\n",
      .exit_status = "  0 every picture was computed, 1 a picture was not, 2 misuse\n"};
}

namespace {

struct InferOptions {
  std::string cfg_path;
  std::optional<network::Resolution> resolution;
  std::string weights_path;
  std::vector<std::string> pictures;
  std::string window;
  bool is_by_blocks = false;
  std::string profile_path;
  /// For `inference.window`.
  std::vector<pipeline::UnitCosts> layer_costs;
  std::string plan_path;
  std::optional<plan::PlanFile> plan;
  infer::InferenceOptions inference;
  uint32_t passes_of_batch = 1;
  std::string names_path;
  infer::DetectionLimits limits;
  uint32_t top = 5;
  std::string json_path;
  std::string trace_path;
  std::optional<uint16_t> http_port;
  bool is_quiet = false;
};

Result<Pipeline> parse_pipeline(const std::string& text) {
  std::vector<std::string> known;
  for (const PipelineWord& it : pipeline_words) {
    if (text == it.word) return it.pipeline;
    known.emplace_back(it.word);
  }
  const std::string meant = nearest(text, known);
  return fail(fmt::format("--pipeline {}: no such pipeline", text),
              meant.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                            : fmt::format("did you mean {}?", meant));
}

/// Comes after the pipeline.
Status read_block_options(const Arguments& arguments, InferOptions& options) {
  const auto is_by_blocks = parse_is_by_blocks(arguments);
  if (!is_by_blocks) return tl::make_unexpected(is_by_blocks.error());
  options.is_by_blocks = *is_by_blocks;
  options.profile_path = arguments.value("profile").value_or("");
  if (!options.is_by_blocks) {
    if (options.profile_path.empty()) return {};
    return fail("--profile: has costs of blocks, and there are none", "give --by blocks, too");
  }
  if (arguments.has("tile"))
    return fail("--tile: blocks are of whole layers", "leave out --tile or --by blocks");
  const Pipeline pipeline = options.inference.window.pipeline;
  if (pipeline == Pipeline::two_stage || pipeline == Pipeline::asynchronous) return {};
  return fail(fmt::format("--by blocks: the pipeline {} has no blocks", name(pipeline)),
              "give -p 2s, or -p async, which copies each block once more");
}

Result<InferOptions> read_infer_options(const Arguments& arguments) {
  if (arguments.operands().size() < 3) {
    return fail("expected a .cfg, its weights and at least one picture", infer_example);
  }
  InferOptions options;
  options.cfg_path = arguments.operands()[0];
  options.weights_path = arguments.operands()[1];
  options.pictures.assign(arguments.operands().begin() + 2, arguments.operands().end());
  options.window = arguments.value("window").value_or("");
  options.plan_path = arguments.value("plan").value_or("");
  for (const std::string option : {"window", "pipeline", "device", "tile", "threads", "by"}) {
    if (!options.plan_path.empty() && arguments.has(option)) {
      return fail(fmt::format("--{}: the plan has one", option),
                  "leave it out, or make another plan: weightpager plan --help");
    }
  }
  options.names_path = arguments.value("names").value_or("");
  options.json_path = arguments.value("json").value_or("");
  options.trace_path = arguments.value("trace").value_or("");
  options.is_quiet = arguments.has("quiet");
  const auto http_port = parse_http_port(arguments);
  if (!http_port) return tl::make_unexpected(http_port.error());
  options.http_port = *http_port;
  const auto device = parse_device(arguments);
  if (!device) return tl::make_unexpected(device.error());
  options.inference.device = *device;
  const auto resolution = parse_resolution(arguments);
  if (!resolution) return tl::make_unexpected(resolution.error());
  options.resolution = *resolution;
  const bool is_gpu = *device == infer::DeviceKind::cuda;
  const auto pipeline =
      parse_pipeline(arguments.value("pipeline").value_or(is_gpu ? "async" : "2s"));
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  options.inference.window.pipeline = *pipeline;
  if (const auto tile = arguments.value("tile")) {
    const auto bytes = parse_bytes(*tile, "--tile", os_page_bytes);
    if (!bytes) return tl::make_unexpected(bytes.error());
    options.inference.window.tile_bytes_max = *bytes;
  }
  if (Status blocks = read_block_options(arguments, options); !blocks)
    return forward_error(std::move(blocks));
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  options.inference.threads = *threads;
  const auto batch = parse_count(arguments.value("batch").value_or("1"), "--batch", 1024);
  if (!batch) return tl::make_unexpected(batch.error());
  options.inference.batch = *batch;
  const auto repeat = parse_count(arguments.value("repeat").value_or("1"), "--repeat", 1'000'000);
  if (!repeat) return tl::make_unexpected(repeat.error());
  options.passes_of_batch = *repeat;
  const auto top = parse_count(arguments.value("top").value_or("5"), "--top", 1000);
  if (!top) return tl::make_unexpected(top.error());
  options.top = *top;
  const auto threshold = parse_share(arguments.value("threshold").value_or("0.5"), "--threshold");
  if (!threshold) return tl::make_unexpected(threshold.error());
  options.limits.probability_min = *threshold;
  const auto overlap = parse_share(arguments.value("overlap").value_or("0.45"), "--overlap");
  if (!overlap) return tl::make_unexpected(overlap.error());
  options.limits.overlap_max = *overlap;
  return options;
}

/// The names of classes: from the user's file, otherwise their numbers.
class ClassNames {
 public:
  static Result<ClassNames> read(const std::string& path) {
    ClassNames names;
    if (path.empty()) return names;
    const auto text = read_whole_file(path, names_bytes_max, "a list of names");
    if (!text) return fail("--names " + text.error().message, text.error().hint);
    std::string_view rest = without_byte_order_mark(*text);
    while (!rest.empty()) names.names_.push_back(printable(take_line(rest)));
    return names;
  }
  std::string operator[](uint32_t index) const {
    return index < names_.size() ? names_[index] : fmt::format("class {}", index);
  }

 private:
  std::vector<std::string> names_;
};

/// One picture on its way through the network.
struct Picture {
  std::string path;
  infer::Size size;
  Image input;
  std::vector<Detection> detections;
  std::vector<Guess> guesses;
};

/// The times of passes over the weights.
struct Passes {
  std::vector<uint64_t> delays_ns;
  uint64_t read_bytes = 0;
};

bool is_detector(const Network& network) {
  return std::any_of(network.layers.begin(), network.layers.end(), [](const network::Layer& it) {
    return std::holds_alternative<network::Yolo>(it.operation);
  });
}

Result<Picture> read_picture(const Network& network, const std::string& path) {
  const auto image = infer::read_image(path, network.input.channels);
  if (!image) return tl::make_unexpected(image.error());
  return Picture{.path = path,
                 .size = {image->shape.width, image->shape.height},
                 .input = infer::letterbox(*image, network.input.width, network.input.height)};
}

Status run_batch(const Network& network, Inference& inference, const InferOptions& options,
                 std::span<Picture> batch, Passes& passes) {
  std::vector<std::span<const float>> inputs;
  for (const Picture& it : batch) inputs.emplace_back(it.input.values);
  const uint64_t read_before_bytes = inference.read_bytes();
  for (uint32_t i = 0; i < options.passes_of_batch; ++i) {
    if (Status ran = inference.run(inputs); !ran) return ran;
    passes.delays_ns.push_back(inference.times().delay_ns());
  }
  passes.read_bytes += inference.read_bytes() - read_before_bytes;
  const auto last = static_cast<uint32_t>(network.layers.size() - 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const memory::Activations& made = inference.activations(i);
    if (is_detector(network)) {
      batch[i].detections = infer::find_detections(network, made, batch[i].size, options.limits);
    } else {
      const network::Shape& shape = network.layers[last].output;
      batch[i].guesses =
          infer::best_guesses({made.output(last), shape.elements()}, shape, options.top);
    }
  }
  return {};
}

void print_picture(const Picture& it, const ClassNames& names) {
  print(stdout, fmt::format("{}\n", printable(it.path)));
  for (const Guess& guess : it.guesses) {
    print(stdout,
          fmt::format("  {:>5.1f} %  {}\n", 100 * guess.probability, names[guess.class_index]));
  }
  for (const Detection& detection : it.detections) {
    const auto [x, y, width, height] = detection.box;
    const auto across = [&](float share) { return share * static_cast<float>(it.size.width); };
    const auto down = [&](float share) { return share * static_cast<float>(it.size.height); };
    print(stdout,
          fmt::format("  {:>5.1f} %  {}  left {:.0f} top {:.0f} width {:.0f} height {:.0f}\n",
                      100 * detection.probability, names[detection.class_index],
                      across(x - width / 2), down(y - height / 2), across(width), down(height)));
  }
}

/// "2 threads", or the GPU and its memory.
std::string computed_with(const Inference& inference, const InferOptions& options) {
  if (options.inference.device == infer::DeviceKind::cpu) {
    return fmt::format("{} threads", options.inference.threads);
  }
  const infer::DeviceMemoryUse use = inference.device_memory();
  return fmt::format("on the GPU, in {} of its memory for weights, {} in all",
                     format_size(use.weights_bytes), format_size(use.all_bytes));
}

std::string overlay_line(const infer::WindowUse& window) {
  const uint64_t bytes = infer::overlay_bytes(window);
  if (bytes == 0) return "";
  return fmt::format(
      "\n  overlay   {} of each pass's weights lie in the activations' memory while it is free",
      format_size(bytes));
}

/// The planned budget, and the part of it that was used.
std::string budget_line(const Inference& inference, const InferOptions& options) {
  if (!options.plan) return "";
  return fmt::format("  budget    {} for weights, activations and workspace, which take {}\n",
                     format_size(options.plan->budget_bytes),
                     format_size(inference.window_bytes() + inference.activation_bytes()));
}

/// Of a plan, or of blocks by measured costs; 0 if there is neither.
uint64_t planned_delay_ns(const Inference& inference, const InferOptions& options) {
  if (options.plan) return options.plan->plan.expected_ns();
  return options.profile_path.empty() ? 0 : inference.window().blocks->delay_ns;
}

void print_summary(const Network& network, const Inference& inference, const InferOptions& options,
                   Passes passes, const MemoryBeside& beside) {
  std::vector<uint64_t>& delays_ns = passes.delays_ns;
  std::sort(delays_ns.begin(), delays_ns.end());
  const size_t units = inference.window().units.size();
  const uint64_t planned_ns = planned_delay_ns(inference, options);
  const std::string planned =
      planned_ns > 0 ? fmt::format(", planned {:.1f}", milliseconds(planned_ns)) : "";
  print(stderr,
        fmt::format(
            "weightpager: {}, {} pipeline, window {} of {}\n"
            "  layers    {}{}, {}\n"
            "  delay     {:.1f} ms (median of {}; {:.1f} to {:.1f}){}\n"
            "  read      {} per pass, {}{}\n"
            "{}"
            "  memory    peak {}: weights {}, activations {}, operations {}, all else {}\n"
            "  all else  {}{}\n",
            options.cfg_path, name(options.inference.window.pipeline),
            format_size(inference.window_bytes()), format_size(network.folded_bytes()),
            network.layers.size(),
            units == network.layers.size()
                ? ""
                : fmt::format(" in {} {}", units, options.is_by_blocks ? "blocks" : "pieces"),
            computed_with(inference, options), milliseconds(delays_ns[delays_ns.size() / 2]),
            delays_ns.size(), milliseconds(delays_ns.front()), milliseconds(delays_ns.back()),
            planned, format_size(passes.read_bytes / delays_ns.size()), inference.reader_name(),
            inference.is_direct() ? ", direct" : ", through the page cache",
            budget_line(inference, options), format_size(resident_bytes_max()),
            format_size(inference.window_bytes()), format_size(inference.activation_bytes()),
            format_size(inference.scratch_bytes()), format_size(beside.all_bytes()),
            describe(beside), overlay_line(inference.window())));
}

nlohmann::ordered_json blocks_json(const infer::WindowUse& window) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  uint32_t first = 0;
  for (size_t i = 0; i < window.units.size(); ++i) {
    const uint32_t end = window.blocks->ends[i];
    blocks.push_back(
        {{"first_layer", first}, {"last_layer", end - 1}, {"bytes", window.units[i].length_bytes}});
    first = end;
  }
  return blocks;
}

nlohmann::ordered_json to_json(const Inference& inference, const InferOptions& options,
                               const std::vector<Picture>& pictures, const Passes& passes,
                               const ClassNames& names, const MemoryBeside& beside) {
  nlohmann::ordered_json json = {{"schema_version", infer_schema_version},
                                 {"network", options.cfg_path},
                                 {"weights", options.weights_path},
                                 {"pipeline", name(options.inference.window.pipeline)},
                                 {"window_bytes", inference.window_bytes()},
                                 {"activation_bytes", inference.activation_bytes()},
                                 {"scratch_bytes", inference.scratch_bytes()},
                                 {"resident_bytes_max", resident_bytes_max()},
                                 {"pieces", inference.window().units.size()},
                                 {"overlay_bytes", infer::overlay_bytes(inference.window())},
                                 {"threads", options.inference.threads},
                                 {"device", device_word(options.inference.device)},
                                 {"device_weights_bytes", inference.device_memory().weights_bytes},
                                 {"device_bytes", inference.device_memory().all_bytes},
                                 {"batch", options.inference.batch},
                                 {"delays_ns", passes.delays_ns},
                                 {"read_bytes", passes.read_bytes}};
  if (options.plan) json["budget_bytes"] = options.plan->budget_bytes;
  if (inference.window().blocks) json["blocks"] = blocks_json(inference.window());
  const uint64_t planned_ns = planned_delay_ns(inference, options);
  if (planned_ns > 0) json["planned_delay_ns"] = planned_ns;
  add_fields(json, beside);
  for (const Picture& it : pictures) {
    nlohmann::ordered_json picture = {{"path", it.path}};
    for (const Guess& guess : it.guesses) {
      picture["classes"].push_back({{"class", guess.class_index},
                                    {"name", names[guess.class_index]},
                                    {"probability", guess.probability}});
    }
    for (const Detection& found : it.detections) {
      picture["detections"].push_back({{"class", found.class_index},
                                       {"name", names[found.class_index]},
                                       {"probability", found.probability},
                                       {"x", found.box.x},
                                       {"y", found.box.y},
                                       {"width", found.box.width},
                                       {"height", found.box.height}});
    }
    json["pictures"].push_back(std::move(picture));
  }
  return json;
}

std::string name_of_run(const InferOptions& options) {
  return fmt::format("{}, {} pipeline on {}", options.cfg_path,
                     name(options.inference.window.pipeline),
                     device_word(options.inference.device));
}

Status take_plan(InferOptions& options, const Network& network) {
  if (options.plan_path.empty()) return {};
  auto file = plan::read_plan(options.plan_path, network);
  if (!file) return forward_error(std::move(file));
  options.plan = std::move(*file);
  options.inference.plan = &options.plan->plan;
  options.inference.threads = options.plan->threads;
  return {};
}

/// The costs that blocks are planned by.
Status take_profile(InferOptions& options, const Network& network) {
  if (!options.is_by_blocks) return {};
  const auto model = read_delay_model(options.profile_path);
  if (!model) return tl::make_unexpected(model.error());
  const budget::BlockedNetwork costs = infer::modelled_costs(network, *model);
  for (const budget::LayerCosts& layer : costs.layers)
    options.layer_costs.push_back({.read_ns = layer.read_ns, .kernel_ns = layer.kernel_ns});
  options.inference.window.layer_costs = options.layer_costs;
  options.inference.window.blocks = {.per_block = costs.per_block};
  return {};
}

Status take_window(InferOptions& options, const Network& network) {
  if (options.window.empty()) return {};
  const auto window = parse_window(options.window, network.folded_bytes(), memory_limit(),
                                   {.bytes_min = os_page_bytes, .step_bytes = os_page_bytes});
  if (!window) return tl::make_unexpected(window.error());
  options.inference.window.window_bytes = round_down(*window, os_page_bytes);
  return {};
}

std::string trace_of(const Network& network, const Inference& inference,
                     const InferOptions& options) {
  const infer::TracedInference traced{name_of_run(options), inference.window(), inference.times()};
  return infer::chrome_trace(network, std::vector{traced});
}

int run_infer(InferOptions options) {
  if (options.is_quiet) set_quiet(true);
  const auto network = network::read_network(options.cfg_path, options.resolution);
  if (!network) return failure(network.error());
  if (Status taken = take_window(options, *network); !taken) return misuse(taken.error());
  if (Status taken = take_plan(options, *network); !taken) return failure(taken.error());
  if (Status taken = take_profile(options, *network); !taken) return failure(taken.error());
  const auto names = ClassNames::read(options.names_path);
  if (!names) return failure(names.error());
  auto report = ReportFile::create_if_asked(options.json_path);
  if (!report) return failure(report.error());
  auto trace = ReportFile::create_if_asked(options.trace_path);
  if (!trace) return failure(trace.error());
  const auto inference = Inference::open(*network, options.weights_path, options.inference);
  if (!inference) return failure(inference.error());
  // Gives back the memory that reading and compiling the network took.
  malloc_trim(0);

  InferenceProgress progress(std::filesystem::path(options.cfg_path).stem(), *network, **inference,
                             options.plan ? options.plan->plan.expected_ns() : 0);
  NetworkAnswers answers({.kind = "inference", .state = [&] { return progress.state(); }});
  const auto socket = control::ControlSocket::open(
      [&](std::string_view it) { return answers.answer(it); }, options.http_port);
  if (!socket) notice(socket.error().message);

  int status = exit_success;
  Passes passes;
  std::vector<Picture> done;
  std::vector<Picture> waiting;
  const auto run_waiting = [&] {
    if (waiting.empty()) return;
    if (Status ran = run_batch(*network, **inference, options, waiting, passes); !ran) {
      status = failure(ran.error());
      return waiting.clear();
    }
    progress.on_pass(**inference, waiting.size() * options.passes_of_batch);
    for (Picture& it : waiting) {
      print_picture(it, *names);
      it.input = {};
      done.push_back(std::move(it));
    }
    waiting.clear();
  };
  for (const std::string& path : options.pictures) {
    if (auto picture = read_picture(*network, path)) {
      waiting.push_back(std::move(*picture));
    } else {
      status = failure(picture.error());
    }
    if (waiting.size() == options.inference.batch) run_waiting();
  }
  run_waiting();
  const MemoryBeside beside = memory_beside((*inference)->promised_bytes());
  if (!options.is_quiet && !done.empty()) {
    print_summary(*network, **inference, options, passes, beside);
  }
  if (*report) {
    const Status written = (*report)->commit(
        to_json(**inference, options, done, passes, *names, beside).dump(1) + "\n");
    if (!written) return failure(written.error());
  }
  if (*trace && !done.empty()) {
    const Status written = (*trace)->commit(trace_of(*network, **inference, options));
    if (!written) return failure(written.error());
  }
  return status;
}

}  // namespace

int infer_command(const std::vector<std::string>& words) {
  return carry_out(infer_description(), words, read_infer_options, run_infer);
}

}  // namespace weightpager::tools
