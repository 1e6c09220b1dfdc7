// `weightpager model make`: writes a synthetic model.
#include <fmt/format.h>

#include <optional>

#include "pager/base/units.h"
#include "pager/model/synthetic/make_model.h"
#include "runtime/network/synthetic/description.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/model/model.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {
namespace {

using model::Format;
using model::MakeOptions;

/// The known networks, as lines of the help.
std::string network_names() {
  std::string lines = "Darknet's .cfg and .weights of one of:";
  size_t column = lines.size();
  for (const std::string& name : network::described_networks()) {
    const bool is_full = column + name.size() > 46;
    lines += is_full ? "\n" + name : " " + name;
    column = is_full ? name.size() : column + 1 + name.size();
  }
  return lines;
}

}  // namespace

Command model_make_description() {
  return {
      .name = "weightpager model make",
      .purpose =
          "Writes a synthetic Llama that engines load and generate nonsense from, or a\n"
          "well-known convolutional network with random weights.\n",
      .usage =
          "  weightpager model make --size SIZE [OPTIONS] -o FILE\n"
          "  weightpager model make --net NAME [OPTIONS] -o DIR\n",
      .options = {{0, "size", "SIZE", "size of the model, met within 2 %: 64MiB, 4GiB"},
                  {0, "net", "NAME", network_names(), network::described_networks()},
                  {'o', "output", "FILE", "where to write; a directory for safetensors and --net"},
                  {0,
                   "arch",
                   "NAME",
                   "llama, or llama-moe: a mixture of experts (llama)",
                   {"llama", "llama-moe"}},
                  {0, "experts", "N", "llama-moe: experts of each layer (32)"},
                  {0, "experts-used", "N", "llama-moe: how many of them a token uses (4)"},
                  {0, "type", "TYPE",
                   "gguf: " + type_names_for(Format::gguf) +
                       " (f16)\nsafetensors: " + type_names_for(Format::safetensors) + " (bf16)"},
                  {0, "format", "FORMAT", "gguf or safetensors (gguf)", {"gguf", "safetensors"}},
                  {0, "seed", "N", "another seed, other weights (1)"},
                  {'f', "force", "", "replace what is there"}},
      .examples =
          "  weightpager model make --size 4GiB -o test.gguf\n"
          "  weightpager model make --size 8GiB --format safetensors -o test/\n"
          "  weightpager model make --arch llama-moe --size 5GiB --type q8_0 -o moe.gguf\n"
          "  weightpager model make --net yolov4 -o networks/\n",
      .exit_status = "  0 made, 1 it could not be written, 2 misuse\n",
      .operands = Operands::none};
}

namespace {

Result<Format> parse_format(const std::string& name) {
  if (name == "gguf") return Format::gguf;
  if (name == "safetensors") return Format::safetensors;
  return fail(fmt::format("--format: expected gguf or safetensors, found '{}'", name));
}

Result<uint64_t> whole_number(const Arguments& arguments, const std::string& option,
                              const std::string& otherwise) {
  const std::string text = arguments.value(option).value_or(otherwise);
  return parse_whole(text, "--" + option, 0, UINT64_MAX);
}

Result<model::ExpertCounts> parse_experts(const Arguments& arguments) {
  const std::string architecture = arguments.value("arch").value_or("llama");
  if (architecture == "llama") {
    if (!arguments.has("experts") && !arguments.has("experts-used")) return model::ExpertCounts{};
    return fail("--experts: a llama has none", "give --arch llama-moe, too");
  }
  if (architecture != "llama-moe")
    return fail(fmt::format("--arch: expected llama or llama-moe, found '{}'", architecture));
  const Result<uint64_t> experts = whole_number(arguments, "experts", "32");
  if (!experts) return tl::make_unexpected(experts.error());
  const Result<uint64_t> used = whole_number(arguments, "experts-used", "4");
  if (!used) return tl::make_unexpected(used.error());
  return model::ExpertCounts{*experts, *used};
}

Result<MakeOptions> parse_options(const Arguments& arguments) {
  if (!arguments.operands().empty())
    return fail(fmt::format("model make: unexpected argument '{}'", arguments.operands().front()),
                "the output is given with -o");
  if (!arguments.has("size") || !arguments.has("output"))
    return fail("model make: expected --size SIZE, or --net NAME, and -o FILE",
                "example: weightpager model make --size 4GiB -o test.gguf");
  const Result<uint64_t> size_bytes = parse_bytes(*arguments.value("size"), "--size");
  if (!size_bytes) return tl::make_unexpected(size_bytes.error());
  const Result<uint64_t> seed = whole_number(arguments, "seed", "1");
  if (!seed) return tl::make_unexpected(seed.error());
  const Result<model::ExpertCounts> experts = parse_experts(arguments);
  if (!experts) return tl::make_unexpected(experts.error());
  const Result<Format> format = parse_format(arguments.value("format").value_or("gguf"));
  if (!format) return tl::make_unexpected(format.error());

  MakeOptions options;
  options.path = *arguments.value("output");
  options.format = *format;
  options.type = arguments.value("type").value_or(*format == Format::gguf ? "f16" : "bf16");
  options.size_bytes = *size_bytes;
  options.experts = *experts;
  options.seed = *seed;
  options.overwrite = arguments.has("force");
  if (const Status status = check_make_options(options); !status)
    return tl::make_unexpected(status.error());
  return options;
}

void print_made(const MakeOptions& options, const model::MadeModel& made) {
  const model::LlamaShape& shape = made.shape;
  const std::string experts =
      shape.experts.experts == 0
          ? ""
          : fmt::format("{} experts ({} used), ", shape.experts.experts, shape.experts.used);
  fmt::print(
      "{}: {}, {} blocks, {}embedding {}, feed-forward {}, {} heads ({} for keys), {} tokens\n",
      options.path, format_size(made.size_bytes), shape.block_count, experts,
      shape.embedding_length, shape.feed_forward_length, shape.head_count, shape.head_count_kv,
      shape.vocabulary_size);
}

int make_network_command(const Arguments& arguments) {
  if (!arguments.operands().empty() || !arguments.has("output"))
    return misuse({"model make: expected --net NAME and -o DIR",
                   "example: weightpager model make --net yolov4 -o networks/"});
  const Result<uint64_t> seed = whole_number(arguments, "seed", "1");
  return seed ? make_network_files(arguments, *seed) : misuse(seed.error());
}

int make(const Arguments& arguments) {
  if (arguments.has("net")) return make_network_command(arguments);
  Result<MakeOptions> options = parse_options(arguments);
  if (!options) return misuse(options.error());

  ProgressLine line;
  options->on_progress = [&](uint64_t written, uint64_t total) { line.show_bytes(written, total); };
  const Result<model::MadeModel> made = make_model(*options);
  line.clear();
  if (!made) return failure(made.error());
  print_made(*options, *made);
  return exit_success;
}

}  // namespace

int model_make_command(const std::vector<std::string>& words) {
  return carry_out(model_make_description(), words, make);
}

}  // namespace weightpager::tools
