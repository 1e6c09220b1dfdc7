// Opening a model: find its files, parse each, put them together.
#include "pager/model/model.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <span>
#include <unordered_set>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/model/experts.h"
#include "pager/model/known_formats.h"
#include "pager/model/layers.h"
#include "pager/model/parsers.h"
#include "pager/model/shards.h"
#include "pager/model/strict_json.h"

namespace weightpager::model {
namespace {

namespace fs = std::filesystem;

Result<Model> assemble(std::vector<ParsedFile> files) {
  WP_ASSERT(!files.empty());
  Model model;
  model.format = files.front().format;
  model.architecture = std::move(files.front().architecture);
  model.experts_used = files.front().experts_used;
  // Of all files: within one file a name is new, or its parser has refused the file.
  std::unordered_set<std::string> names;
  for (ParsedFile& parsed : files) {
    const auto file = static_cast<uint32_t>(model.files.size());
    for (Tensor& tensor : parsed.tensors) {
      if (!names.insert(tensor.name).second)
        return fail(fmt::format("{}, byte {}: expected a new tensor, found {} for the second time",
                                parsed.file.path, tensor.offset_bytes, quote_name(tensor.name)),
                    "shards of different models were mixed; download them again");
      tensor.file = file;
      model.tensors.push_back(std::move(tensor));
    }
    model.files.push_back(std::move(parsed.file));
  }
  group_layers(model);
  find_experts(model);
  return model;
}

Result<Model> assemble(Result<std::vector<ParsedFile>> files) {
  if (!files) return forward_error(std::move(files));
  return assemble(std::move(*files));
}

Result<Model> assemble_one(ParsedFile file) {
  std::vector<ParsedFile> files;
  files.push_back(std::move(file));
  return assemble(std::move(files));
}

/// What a Hugging Face config.json says.
class ConfigHandler final : public JsonHandler {
 public:
  std::string model_type;
  uint64_t experts_used = 0;

  bool on_start(const JsonPath&, bool) override { return true; }
  bool on_end(const JsonPath&) override { return true; }
  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    const auto* text = std::get_if<std::string>(&value);
    if (path.size() == 1 && path[0] == "model_type" && text != nullptr) model_type = *text;
    if (!path.empty() && path.back() == "num_experts_per_tok") experts_used = to_count(value);
    return true;
  }

 private:
  static uint64_t to_count(const JsonScalar& value) {
    if (const auto* number = std::get_if<int64_t>(&value); number != nullptr && *number > 0)
      return static_cast<uint64_t>(*number);
    const auto* number = std::get_if<uint64_t>(&value);
    return number != nullptr ? *number : 0;
  }
};

/// safetensors files do not say what they are, the config.json next to them does. It is for people
/// only, so a missing or broken one is no error.
void read_config_beside(const std::string& path, Model& model) {
  constexpr uint64_t config_bytes_max = 1 << 20;
  Result<HeaderReader> reader =
      HeaderReader::open(fs::path(path).replace_filename("config.json").string());
  if (!reader) return;
  ConfigHandler handler;
  const std::string text = reader->read_text(reader->size_bytes(), config_bytes_max, "config.json");
  if (parse_strict_json(text, handler)) return;
  model.architecture = std::move(handler.model_type);
  model.experts_used = handler.experts_used;
}

/// A directory, as Hugging Face models are downloaded: its index, or its only file.
Result<std::string> model_in_directory(const std::string& directory) {
  std::error_code error;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"}) {
    const fs::path path = fs::path(directory) / name;
    if (fs::exists(path, error)) return path.string();
  }
  return fail(
      fmt::format(
          "{}: expected model.safetensors.index.json or model.safetensors in the directory, "
          "found neither",
          directory),
      "give the path of the model file");
}

Result<Model> open_files_of(const std::string& path) {
  if (path.ends_with(index_suffix)) return assemble(read_indexed_files(path));
  Result<ParsedFile> parsed = parse_file(path);
  if (!parsed) return forward_error(std::move(parsed));
  if (parsed->format == Format::gguf && parsed->shard_count > 1)
    return assemble(read_gguf_shards(*parsed));
  if (parsed->format == Format::safetensors) {
    Result<std::optional<std::string>> index = find_index(path);
    if (!index) return forward_error(std::move(index));
    if (*index) return assemble(read_indexed_files(**index));
  }
  return assemble_one(std::move(*parsed));
}

}  // namespace

Result<ParsedFile> parse_file(const std::string& path) {
  Result<HeaderReader> reader = HeaderReader::open(path);
  if (!reader) return forward_error(std::move(reader));
  std::array<char, start_bytes> start{};
  const size_t length = reader->peek_start(std::as_writable_bytes(std::span(start)));
  if (!reader->ok()) return reader->take_error();
  if (is_named_weights(path)) return parse_plain(*reader);
  const KnownFormat* const format = format_by_start({start.data(), length});
  return format != nullptr ? format->parse(*reader) : parse_plain(*reader);
}

Result<Model> open_model(const std::string& path) {
  std::string file = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    Result<std::string> found = model_in_directory(path);
    if (!found) return forward_error(std::move(found));
    file = std::move(*found);
  }
  Result<Model> model = open_files_of(file);
  if (model && model->format == Format::safetensors) read_config_beside(file, *model);
  return model;
}

Result<Model> open_model_file(const std::string& path) {
  Result<ParsedFile> parsed = parse_file(path);
  if (!parsed) return forward_error(std::move(parsed));
  return assemble_one(std::move(*parsed));
}

Model in_file_order(const std::string& path, uint64_t size_bytes) {
  Model plain;
  plain.files.push_back({path, size_bytes});
  plain.tensors.push_back(whole_file_tensor(size_bytes));
  group_layers(plain);
  return plain;
}

Result<Model> open_model_to_page(const std::string& path) {
  Result<Model> model = open_model(path);
  std::error_code problem;
  const uint64_t size_bytes = fs::file_size(path, problem);
  if (model || model.error().error_number != ENOTSUP || problem) return model;
  notice(model.error().message + ": paged in file order");
  return in_file_order(path, size_bytes);
}

uint64_t Expert::size_bytes() const {
  uint64_t bytes = 0;
  for (const Slab& slab : slabs) bytes += slab.size_bytes;
  return bytes;
}

uint64_t Model::weight_bytes() const {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes;
  return bytes;
}

const char* format_name(Format format) {
  for (const KnownFormat& known : known_formats()) {
    if (known.format == format) return known.name;
  }
  return "plain";
}

}  // namespace weightpager::model
