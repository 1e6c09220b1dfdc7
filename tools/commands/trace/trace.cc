#include "tools/commands/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pager/base/memory_room.h"
#include "pager/policy/baselines/belady.h"
#include "pager/simulate/make_trace.h"
#include "pager/simulate/simulator.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/trace/made_trace.h"
#include "tools/commands/trace/trace_record.h"
#include "tools/formats/trace_file.h"

namespace weightpager::tools {
namespace {

using simulate::Touch;
using simulate::Trace;
using simulate::TraceShape;
using simulate::Workload;

constexpr uint32_t count_max = 1'000'000;
/// A larger model would have more chunks than a trace may have.
constexpr uint64_t model_bytes_max = uint64_t{32} * 1024 * GiB;
constexpr uint32_t touches_shown = 40;
constexpr uint32_t threads_max = 1024;

}  // namespace

Command trace_description() {
  return {
      .name = "weightpager trace",
      .purpose = "Shows, converts and makes traces: which chunks an engine touches, and when.\n",
      .usage =
          "  weightpager trace record PID -o FILE [--for 5s]\n"
          "  weightpager trace show FILE [--top N]\n"
          "  weightpager trace stats FILE\n"
          "  weightpager trace convert FILE -o FILE\n"
          "  weightpager trace make KIND [OPTIONS] -o FILE\n",
      .subcommands = {{"record", "record what a live pager does, for Chrome or Perfetto",
                       trace_record_description, trace_record_command},
                      {"show", "show what is in a trace, and its first touches"},
                      {"stats", "show its passes, and the least that any policy must read"},
                      {"convert", "convert to JSON, to CSV (touches only), from JSON to binary"},
                      {"make", "make a dense, prompt, moe, drifting, interleaved or random one"}},
      .options = {{0, "top", "N", "touches that are shown (40)"},
                  {'o', "output", "FILE",
                   "where to write, by its ending .json, .csv, otherwise binary"},
                  {0, "layers", "N", "layers (32)"},
                  {0, "dense", "SIZE",
                   "bytes of a layer that every pass uses (128MiB; moe: 32MiB)"},
                  {0, "experts", "N", "experts of a layer (moe: 32)"},
                  {0, "experts-used", "N", "how many of them a token uses (moe: 4)"},
                  {0, "slab", "SIZE", "size of an expert's gate, up or down (moe: 4MiB)"},
                  {0, "passes", "N", "passes over the layers (8)"},
                  {0, "zipf", "X", "routing: 0.01 nearly even, 1 with favourites (1)"},
                  {0, "threads", "N", "threads of the engine (1)"},
                  {0, "pieces", "", "threads take small pieces in turns, not a strip each"},
                  {0, "compute", "GB/S", "how fast the engine goes through resident weights (20)"},
                  {0, "seed", "N", "another seed, other routing (1)"}},
      .examples =
          "  weightpager run --window 1GiB --record llama.trace -- llama-cli -m model.gguf\n"
          "  weightpager trace stats llama.trace\n"
          "  weightpager trace make moe --experts 64 --passes 100 -o moe.trace\n",
      .exit_status = "  0 done, 1 it could not be read or written, 2 misuse\n"};
}

namespace {

std::string milliseconds_text(uint64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) / 1e6);
}

void print_head(const Trace& trace) {
  fmt::print("{}: {} in {} chunks of {}\n", trace.name, format_size(trace.model_bytes()),
             trace.chunks, format_size(trace.chunk_bytes));
  fmt::print("  order    {} chunks of every pass, {} layers, {} revisited, {} experts\n",
             trace.order.cyclic.size(), trace.order.layer_begins.size(),
             trace.order.revisited.size(), trace.order.experts.size());
  const std::string by =
      trace.threads > 1 ? fmt::format(" by {} threads together", trace.threads) : "";
  fmt::print("  touches  {} in {} passes, {} ms of computing{}\n", trace.touches.size(),
             trace.pass_begins.size(), milliseconds_text(trace.compute_ns()), by);
}

int show(const Trace& trace, uint32_t top) {
  print_head(trace);
  fmt::print("\n{:>10} {:>6} {:>10} {:>12} {:>12}\n", "touch", "pass", "chunk", "offset",
             "then ms");
  size_t pass = 0;
  for (uint64_t place = 0; place < std::min<uint64_t>(top, trace.touches.size()); ++place) {
    if (place == trace.pass_end(pass)) ++pass;
    const Touch& touch = trace.touches[place];
    const bool is_known = touch.offset_bytes != policy::anywhere;
    fmt::print("{:>10} {:>6} {:>10} {:>12} {:>12}\n", place, pass, touch.chunk,
               is_known ? fmt::to_string(touch.offset_bytes) : "-",
               milliseconds_text(touch.compute_ns));
  }
  return exit_success;
}

uint64_t distinct_chunks(const Trace& trace, size_t pass) {
  std::vector<policy::ChunkId> chunks;
  for (uint64_t place = trace.pass_begins[pass]; place < trace.pass_end(pass); ++place) {
    chunks.push_back(trace.touches[place].chunk);
  }
  std::sort(chunks.begin(), chunks.end());
  return static_cast<uint64_t>(std::unique(chunks.begin(), chunks.end()) - chunks.begin());
}

/// Smallest, median, largest.
template <typename Show>
std::string range_of(std::vector<uint64_t> values, Show show) {
  std::sort(values.begin(), values.end());
  return fmt::format("{} to {}, half below {}", show(values.front()), show(values.back()),
                     show(values[values.size() / 2]));
}

int stats(const Trace& trace) {
  print_head(trace);
  std::vector<uint64_t> used;
  std::vector<uint64_t> touches;
  for (size_t pass = 0; pass < trace.pass_begins.size(); ++pass) {
    used.push_back(distinct_chunks(trace, pass));
    touches.push_back(trace.pass_end(pass) - trace.pass_begins[pass]);
  }
  const auto size = [&](uint64_t chunks) { return format_size(chunks * trace.chunk_bytes); };
  fmt::print("  a pass   uses {}; touches {}\n", range_of(used, size),
             range_of(touches, [](uint64_t count) { return fmt::to_string(count); }));
  fmt::print("\n{:>10} {:>22} {:>14} {:>26} {:>22}\n", "window", "least read, all passes", "a pass",
             "a pass, the same kept", "if that is learned");
  const std::vector<policy::ChunkId> touched = trace.touched_chunks();
  for (const uint32_t percent : {10u, 25u, 50u, 75u, 100u}) {
    const auto window = std::max(static_cast<uint32_t>(uint64_t{trace.chunks} * percent / 100), 1u);
    const uint64_t reads = policy::least_reads(touched, trace.chunks, window);
    const uint64_t fixed = policy::reads_of_fixed_set(touched, trace.chunks, window, 0);
    const uint64_t learned = policy::reads_of_learned_set(touched, trace.chunks, window, 0);
    const size_t passes = trace.pass_begins.size();
    fmt::print("{:>9}% {:>22} {:>14} {:>26} {:>22}\n", percent, size(reads), size(reads / passes),
               size(fixed / passes), size(learned / passes));
  }
  return exit_success;
}

// ---- Making ----

/// Reads a size from the option, if it is given.
Status take_size(const Arguments& arguments, const std::string& option, uint64_t& value) {
  if (!arguments.has(option)) return {};
  const auto size = parse_bytes(*arguments.value(option), "--" + option);
  if (!size) return tl::make_unexpected(size.error());
  value = *size;
  return {};
}

template <typename Number>
Status take_count(const Arguments& arguments, const std::string& option, Number& value,
                  uint32_t most = count_max) {
  if (!arguments.has(option)) return {};
  const auto count = parse_count(*arguments.value(option), "--" + option, most);
  if (!count) return tl::make_unexpected(count.error());
  value = *count;
  return {};
}

Status take_number(const Arguments& arguments, const std::string& option, const NumberRange& range,
                   double scale, double& value) {
  if (!arguments.has(option)) return {};
  const auto number = parse_number(*arguments.value(option), "--" + option, range);
  if (!number) return tl::make_unexpected(number.error());
  value = *number * scale;
  return {};
}

struct Recipe {
  TraceShape shape;
  Workload work;
};

Result<Recipe> read_recipe(const Arguments& arguments, const std::string& kind) {
  const bool is_mixture = kind == "moe" || kind == "drifting";
  Recipe recipe;
  recipe.work.passes = 8;
  if (is_mixture) {
    recipe.shape = {
        .dense_bytes = 32 * MiB, .experts = 32, .experts_used = 4, .slab_bytes = 4 * MiB};
  }
  if (kind == "drifting") recipe.work.drift_passes = 10;
  if (kind == "prompt") recipe.work.prompt_passes = 2;
  TraceShape& shape = recipe.shape;
  const Status outcomes[] = {
      take_count(arguments, "layers", shape.layers),
      take_size(arguments, "dense", shape.dense_bytes),
      take_count(arguments, "experts", shape.experts),
      take_count(arguments, "experts-used", shape.experts_used),
      take_size(arguments, "slab", shape.slab_bytes),
      take_count(arguments, "passes", recipe.work.passes),
      take_number(arguments, "zipf", zipf_exponents, 1, recipe.work.zipf_exponent),
      take_number(arguments, "compute", bandwidths_gb_per_s, 1e9, recipe.work.compute_bytes_per_s),
      take_count(arguments, "seed", recipe.work.seed),
      take_count(arguments, "threads", recipe.work.threads, threads_max),
  };
  for (const Status& outcome : outcomes) {
    if (!outcome) return tl::make_unexpected(outcome.error());
  }
  if (arguments.has("pieces")) recipe.work.division = simulate::Division::pieces;
  if (kind == "random" && recipe.work.threads > 1) {
    return fail("--threads: random touches are one thread's", "leave it out, or make another kind");
  }
  if (shape.experts > 0 && (shape.slab_bytes == 0 || shape.experts_used == 0)) {
    return fail("a mixture needs --slab and --experts-used", "weightpager trace make moe -o FILE");
  }
  if (shape.dense_bytes == 0 && shape.experts == 0) return fail("--dense: layers without weights");
  if (uint64_t{shape.layers} * std::max(shape.experts, 1u) > count_max) {
    return fail(fmt::format("--layers {} --experts {}: more than {} experts", shape.layers,
                            shape.experts, count_max));
  }
  const double model_bytes =
      shape.layers * (static_cast<double>(shape.dense_bytes) +
                      3.0 * shape.experts * static_cast<double>(shape.slab_bytes));
  if (model_bytes > static_cast<double>(model_bytes_max)) {
    return fail(fmt::format("--layers, --dense, --experts and --slab: a model of more than {}",
                            format_size(model_bytes_max)));
  }
  return recipe;
}

/// Checks that memory has room for the model that a trace is made of: for the names of layers and
/// tensors, and for lists of chunks.
Status check_room_for_model(const TraceShape& shape) {
  constexpr uint64_t layer_bytes = 1 * KiB;
  constexpr uint64_t expert_bytes = 256;
  constexpr uint64_t chunk_bytes = 64;
  const uint64_t experts = uint64_t{shape.layers} * shape.experts;
  const uint64_t bytes = shape.layers * shape.dense_bytes + 3 * experts * shape.slab_bytes;
  return check_room({.what = fmt::format("a model of {} layers", shape.layers),
                     .bytes = shape.layers * layer_bytes + experts * expert_bytes +
                              bytes / chunk_bytes_min * chunk_bytes},
                    "give fewer --layers");
}

Result<Trace> make(const std::string& kind, const Recipe& recipe) {
  if (Status fits = check_room_for_model(recipe.shape); !fits)
    return forward_error(std::move(fits));
  const model::Model model = model_of(recipe.shape);
  if (kind == "random") {
    const uint32_t chunks = simulate::make_trace(model, {.passes = 1}, kind).chunks;
    const uint64_t touches = uint64_t{recipe.work.passes} * 100;
    if (Status fits = check_room_for_touches(touches, kind); !fits) {
      return forward_error(std::move(fits));
    }
    const double chunk_ns = chunk_bytes_max / recipe.work.compute_bytes_per_s * 1e9;
    return simulate::make_random(chunks, touches, static_cast<uint64_t>(chunk_ns),
                                 recipe.work.seed);
  }
  if (kind == "interleaved") {
    const auto one = make_trace_in_memory(model, recipe.work, kind);
    if (!one) return one;
    return simulate::interleave({*one, *one}, kind);
  }
  for (const char* known : {"dense", "prompt", "moe", "drifting"}) {
    if (kind == known) return make_trace_in_memory(model, recipe.work, kind);
  }
  return fail(fmt::format("trace make {}: unknown kind", kind),
              "there are dense, prompt, moe, drifting, interleaved, random");
}

int write(const Trace& trace, const Arguments& arguments) {
  const auto path = arguments.value("output");
  if (!path) return misuse({"--output is missing", "say where to write: -o FILE"});
  if (auto written = write_trace(trace, *path, "--output"); !written)
    return failure(written.error());
  return exit_success;
}

int make_command(const Arguments& arguments, const std::string& kind) {
  const auto recipe = read_recipe(arguments, kind);
  if (!recipe) return misuse(recipe.error());
  const auto trace = make(kind, *recipe);
  if (!trace)
    return trace.error().error_number == ENOMEM ? failure(trace.error()) : misuse(trace.error());
  return write(*trace, arguments);
}

int act_on_trace(const Arguments& arguments) {
  const auto& operands = arguments.operands();
  const std::string word = operands.empty() ? "" : operands.front();
  const bool is_known = word == "show" || word == "stats" || word == "convert" || word == "make";
  if (!is_known || operands.size() != 2) {
    return misuse(
        {is_known ? fmt::format("trace {}: expected one operand more", word)
                  : fmt::format("trace: expected record, show, stats, convert or make, found {}",
                                word.empty() ? "nothing" : "'" + word + "'"),
         "`weightpager trace --help` explains them"});
  }
  if (word == "make") return make_command(arguments, operands[1]);
  const auto trace = read_trace(operands[1]);
  if (!trace) return failure(trace.error());
  if (word == "stats") return stats(*trace);
  if (word == "convert") return write(*trace, arguments);
  const auto top = parse_count(arguments.value("top").value_or(fmt::to_string(touches_shown)),
                               "--top", count_max);
  return top ? show(*trace, *top) : misuse(top.error());
}

}  // namespace

int trace_command(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "record") {
    return trace_record_command({words.begin() + 1, words.end()});
  }
  return carry_out(trace_description(), words, act_on_trace);
}

}  // namespace weightpager::tools
