// Finding a model's files: see shards.h.
#include "pager/model/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/model/strict_json.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

// llama.cpp and Hugging Face name shards alike: "-00001-of-00003" before the extension.
constexpr size_t number_digits = 5;
constexpr std::string_view between_numbers = "-of-";
constexpr size_t numbering_length = 1 + number_digits + between_numbers.size() + number_digits;

/// "/models/llama-00002-of-00003.gguf": stem "/models/llama".
struct NumberedName {
  std::string stem;
  std::string extension;
};

bool is_number(std::string_view text) {
  return text.size() == number_digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<NumberedName> split_numbered_name(const std::string& path,
                                                std::string_view extension) {
  if (!path.ends_with(extension) || path.size() < numbering_length + extension.size())
    return std::nullopt;
  const size_t stem_length = path.size() - extension.size() - numbering_length;
  const std::string_view numbering = std::string_view(path).substr(stem_length, numbering_length);
  const bool matches =
      numbering[0] == '-' && is_number(numbering.substr(1, number_digits)) &&
      numbering.substr(1 + number_digits, between_numbers.size()) == between_numbers &&
      is_number(numbering.substr(numbering_length - number_digits));
  if (!matches) return std::nullopt;
  return NumberedName{path.substr(0, stem_length), std::string(extension)};
}

std::string shard_path(const NumberedName& name, uint64_t shard, uint64_t shard_count) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.stem, shard + 1, shard_count, name.extension);
}

Status check_gguf_shard(const ParsedFile& parsed, uint64_t shard, uint64_t shard_count) {
  if (parsed.format != Format::gguf)
    return fail(fmt::format("{}, byte 0: expected the bytes 'GGUF', found something else",
                            parsed.file.path));
  if (parsed.shard == shard && parsed.shard_count == shard_count) return {};
  return fail(
      fmt::format(
          "{}, byte 0: expected split.no {} and split.count {}, as the file name says, found "
          "{} and {}",
          parsed.file.path, shard, shard_count, parsed.shard, parsed.shard_count),
      "the file was renamed, or shards of different models were mixed; download them again");
}

Status check_tensor_count(const std::vector<ParsedFile>& shards) {
  uint64_t tensor_count = 0;
  for (const ParsedFile& shard : shards) tensor_count += shard.tensors.size();
  const ParsedFile& first = shards.front();
  if (first.model_tensor_count == 0 || first.model_tensor_count == tensor_count) return {};
  return fail(
      fmt::format("{}, byte 0: expected split.tensors.count {} in the {} shards, found {} tensors",
                  first.file.path, first.model_tensor_count, shards.size(), tensor_count),
      "shards of different models were mixed; download them again");
}

/// {"metadata": …, "weight_map": {"tensor": "model-00001-of-00003.safetensors"}}
class IndexHandler final : public JsonHandler {
 public:
  std::map<std::string, std::string> file_of_tensor;

  bool on_start(const JsonPath& path, bool is_object) override {
    if (path.empty() && !is_object) return refuse("an object", "an array");
    if (!is_in_weight_map(path)) return true;
    if (path.size() == 1 && is_object) return true;
    return refuse("weight_map as an object of file names", is_object ? "an object" : "an array");
  }

  bool on_end(const JsonPath& /*path*/) override { return true; }

  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    if (path.empty()) return refuse("an object", describe(value));
    if (!is_in_weight_map(path)) return true;
    const auto* name = std::get_if<std::string>(&value);
    if (path.size() != 2 || name == nullptr)
      return refuse("weight_map as an object of file names", describe(value));
    // Anything else could make the pager read files all over the machine.
    if (name->empty() || *name == "." || *name == ".." ||
        name->find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      return refuse("a plain file name in weight_map", quote_name(*name));
    file_of_tensor[path[1]] = *name;
    return true;
  }

 private:
  static bool is_in_weight_map(const JsonPath& path) {
    return !path.empty() && path[0] == "weight_map";
  }
};

using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> read_weight_map(const std::string& index_path) {
  constexpr uint64_t index_bytes_max = 256 * MiB;
  Result<HeaderReader> reader = HeaderReader::open(index_path);
  if (!reader) return forward_error(std::move(reader));
  const std::string text =
      reader->read_text(reader->size_bytes(), index_bytes_max, "an index of safetensors files");
  if (!reader->ok()) return reader->take_error();
  IndexHandler handler;
  if (const auto error = parse_strict_json(text, handler)) {
    reader->mismatch(error->offset_bytes, error->expected, error->found);
  } else if (handler.file_of_tensor.empty()) {
    reader->mismatch(text.size(), "a weight_map", "none");
  }
  if (!reader->ok()) return reader->take_error();
  return std::move(handler.file_of_tensor);
}

/// Engines look for tensors in the files, so an index that says otherwise (published ones do) is
/// worth a notice, and no more.
void check_weight_map(const std::string& index_path, const WeightMap& weight_map,
                      const std::vector<ParsedFile>& files) {
  std::map<std::string, std::string> found;
  for (const ParsedFile& parsed : files)
    for (const Tensor& tensor : parsed.tensors)
      found[tensor.name] = fs::path(parsed.file.path).filename().string();
  for (const auto& [tensor, file] : weight_map) {
    const auto place = found.find(tensor);
    if (place != found.end() && place->second == file) continue;
    return notice(fmt::format("{}: expected tensor {} in {}, found it in {}", index_path,
                              quote_name(tensor), quote_name(file),
                              place == found.end() ? "no file" : quote_name(place->second)));
  }
}

/// `named_by`: what says that there is this shard.
Result<ParsedFile> parse_shard(const std::string& path, const std::string& named_by) {
  Result<ParsedFile> parsed = parse_file(path);
  if (parsed || parsed.error().error_number != ENOENT) return parsed;
  return fail(fmt::format("{}: this shard is missing, though {} names it", path, named_by),
              "the download did not finish, or took one file only; put the shard beside the others",
              ENOENT);
}

/// The index's path that goes with a safetensors file's name.
std::string index_path_for(const std::string& path) {
  constexpr std::string_view extension = ".safetensors";
  if (const auto name = split_numbered_name(path, extension))
    return name->stem + std::string(index_suffix);
  const std::string stem =
      path.ends_with(extension) ? path.substr(0, path.size() - extension.size()) : path;
  return stem + std::string(index_suffix);
}

}  // namespace

Result<std::vector<ParsedFile>> read_gguf_shards(const ParsedFile& any) {
  const uint64_t shard_count = any.shard_count;
  const auto name = split_numbered_name(any.file.path, ".gguf");
  if (!name || any.file.path != shard_path(*name, any.shard, shard_count))
    return fail(
        fmt::format("{}, byte 0: expected a file name that ends in -{:05}-of-{:05}.gguf, as "
                    "split.no and split.count say, found another",
                    any.file.path, any.shard + 1, shard_count),
        "give the shards back the names that they were downloaded with");

  std::vector<ParsedFile> shards;
  for (uint64_t shard = 0; shard < shard_count; ++shard) {
    Result<ParsedFile> parsed = parse_shard(shard_path(*name, shard, shard_count), any.file.path);
    if (!parsed) return forward_error(std::move(parsed));
    if (Status status = check_gguf_shard(*parsed, shard, shard_count); !status)
      return forward_error(std::move(status));
    shards.push_back(std::move(*parsed));
  }
  if (Status status = check_tensor_count(shards); !status) return forward_error(std::move(status));
  return shards;
}

Result<std::vector<ParsedFile>> read_indexed_files(const std::string& index_path) {
  Result<WeightMap> weight_map = read_weight_map(index_path);
  if (!weight_map) return forward_error(std::move(weight_map));
  std::set<std::string> names;
  for (const auto& [tensor, file] : *weight_map) names.insert(file);

  std::vector<ParsedFile> files;
  for (const std::string& name : names) {
    Result<ParsedFile> parsed =
        parse_shard(fs::path(index_path).replace_filename(name).string(), index_path);
    if (!parsed) return forward_error(std::move(parsed));
    if (parsed->format != Format::safetensors)
      return fail(fmt::format("{}, byte 0: expected a safetensors file, as {} says, found another",
                              parsed->file.path, index_path));
    files.push_back(std::move(*parsed));
  }
  check_weight_map(index_path, *weight_map, files);
  return files;
}

Result<std::optional<std::string>> find_index(const std::string& path) {
  const std::string index_path = index_path_for(path);
  std::error_code error;
  if (!fs::exists(index_path, error)) return std::nullopt;
  Result<WeightMap> weight_map = read_weight_map(index_path);
  if (!weight_map) return forward_error(std::move(weight_map));
  const std::string name = fs::path(path).filename().string();
  const bool is_listed = std::any_of(weight_map->begin(), weight_map->end(),
                                     [&](const auto& entry) { return entry.second == name; });
  return is_listed ? std::optional(index_path) : std::nullopt;
}

}  // namespace weightpager::model
