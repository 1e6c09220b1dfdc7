// Making a model: check what is asked for, choose a shape, hand over to the format.
#include "pager/model/synthetic/make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "pager/base/units.h"
#include "pager/model/synthetic/formats.h"
#include "pager/model/synthetic/weights.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

bool is_made_in(Format format, const GgmlType& type) {
  return can_make_weights(type) && (format == Format::gguf || type.block_elements == 1);
}

/// Types are written as people do: "q4_k", "Q4_K", "bf16".
const GgmlType* find_made_type(Format format, const std::string& name) {
  const auto* const found =
      std::find_if(ggml_types.begin(), ggml_types.end(), [&](const GgmlType& type) {
        return type.name == upper_case(name) && is_made_in(format, type);
      });
  return found == ggml_types.end() ? nullptr : found;
}

Status check_output(const MakeOptions& options) {
  std::error_code error;
  const fs::path path(options.path);
  const bool is_directory = fs::is_directory(path, error);
  const bool is_occupied = fs::exists(path, error) && !(is_directory && fs::is_empty(path, error));
  if (options.format == Format::gguf && is_directory)
    return fail(fmt::format("{}: expected a file to write, found a directory", options.path),
                fmt::format("write to {}/model.gguf", options.path));
  if (options.format == Format::safetensors && is_occupied && !is_directory)
    return fail(fmt::format("{}: expected a directory to write, found a file", options.path),
                "safetensors models are directories: give another path");
  if (is_occupied && !options.overwrite)
    return fail(fmt::format("{}: is there already", options.path),
                "--force replaces it; or give another path");
  return {};
}

Status check_experts(const MakeOptions& options) {
  const auto [experts, used] = options.experts;
  if (experts == 0 && used == 0) return {};
  if (experts < 2 || experts > made_experts_max)
    return fail(
        fmt::format("a mixture has from 2 to {} experts, not {}", made_experts_max, experts));
  if (used < 1 || used > experts)
    return fail(fmt::format("a token uses from 1 to {} of the experts, not {}", experts, used));
  if (choose_llama_shape(options.size_bytes, *find_made_type(options.format, options.type),
                         options.experts))
    return {};
  return fail(
      fmt::format("{} experts do not fit into {}", experts, format_size(options.size_bytes)),
      "make the model larger, or give it fewer experts");
}

}  // namespace

std::string type_names_for(Format format) {
  std::string names;
  for (const GgmlType& type : ggml_types) {
    if (!is_made_in(format, type)) continue;
    if (!names.empty()) names += ", ";
    std::transform(type.name.begin(), type.name.end(), std::back_inserter(names),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  return names;
}

Status check_make_options(const MakeOptions& options) {
  if (find_made_type(options.format, options.type) == nullptr)
    return fail(
        fmt::format("there is no type '{}' for {}", options.type, format_name(options.format)),
        "types: " + type_names_for(options.format));
  const uint64_t size_bytes = options.size_bytes;
  if (size_bytes >= made_size_bytes_min && size_bytes <= made_size_bytes_max)
    return check_experts(options);
  return fail(
      fmt::format("the size must be from {} to {}, not {}", format_size(made_size_bytes_min),
                  format_size(made_size_bytes_max), format_size(size_bytes)),
      "examples: 64MiB, 4GiB");
}

Result<MadeModel> make_model(const MakeOptions& options) {
  Status status = check_make_options(options);
  if (status) status = check_output(options);
  if (!status) return forward_error(std::move(status));

  const GgmlType& type = *find_made_type(options.format, options.type);
  const MakePlan plan{options, type,
                      *choose_llama_shape(options.size_bytes, type, options.experts)};
  Result<uint64_t> size_bytes =
      options.format == Format::gguf ? make_gguf(plan) : make_safetensors(plan);
  if (!size_bytes) return forward_error(std::move(size_bytes));
  return MadeModel{plan.shape, *size_bytes};
}

}  // namespace weightpager::model
