#include "tools/arguments/model_arguments.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "pager/model/known_formats.h"
#include "pager/model/model.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

/// Hugging Face's models are folders of safetensors, and an engine that is given such a folder maps
/// them all. Of a folder of GGUF files an engine maps what it is told, which is an argument itself.
bool is_read_with_folder(const std::string& path) {
  const model::KnownFormat* const format = model::format_by_ending(path);
  return format != nullptr && format->format == model::Format::safetensors;
}

std::vector<std::string> models_in(const std::string& directory,
                                   const std::vector<std::string>& match) {
  std::vector<std::string> files;
  std::error_code ignored;  // what cannot be listed, the engine will complain about
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string path = entry.path().string();
    const std::string absolute = fs::absolute(entry.path(), ignored).lexically_normal().string();
    const bool is_meant = std::any_of(match.begin(), match.end(), [&](const std::string& glob) {
      return model::glob_names(glob.c_str(), absolute.c_str());
    });
    if (is_read_with_folder(path) || is_meant) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// An engine that is given "model.onnx" maps the weights that lie beside it.
std::vector<std::string> weights_beside_graph(const std::string& graph) {
  constexpr std::string_view graph_ending = ".onnx";
  std::vector<std::string> files;
  for (const std::string_view ending : model::endings_of_weights()) {
    const std::string file = graph + std::string(ending.substr(graph_ending.size()));
    std::error_code ignored;
    if (model::is_named_weights(file) && fs::is_regular_file(file, ignored)) files.push_back(file);
  }
  return files;
}

std::vector<std::string> files_named_by(const std::string& argument,
                                        const std::vector<std::string>& match) {
  std::error_code ignored;
  if (fs::is_directory(argument, ignored)) return models_in(argument, match);
  std::vector<std::string> files = weights_beside_graph(argument);
  if (model::is_model_file(argument, match)) files.insert(files.begin(), argument);
  return files;
}

/// One name per file, however it was spelt.
std::string identity(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

}  // namespace

std::vector<std::string> model_patterns(const std::vector<std::string>& match) {
  std::vector<std::string> patterns;
  for (const model::KnownFormat& format : model::known_formats()) {
    if (!format.ending.empty()) patterns.push_back("*" + std::string(format.ending));
  }
  for (const std::string_view ending : model::endings_of_weights())
    patterns.push_back("*" + std::string(ending));
  patterns.insert(patterns.end(), match.begin(), match.end());
  return patterns;
}

std::vector<std::string> find_model_files(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& match) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    for (const std::string& file : files_named_by(name, match)) {
      if (seen.insert(identity(file)).second) found.push_back(file);
    }
  };
  for (const std::string& argument : arguments) {
    add(argument);
    const size_t equals = argument.find('=');
    if (equals != std::string::npos) add(argument.substr(equals + 1));
  }
  return found;
}

std::vector<model::FileId> ids_of(const std::vector<std::string>& files) {
  std::vector<model::FileId> ids;
  for (const std::string& path : files) {
    struct stat facts;
    if (stat(path.c_str(), &facts) == 0) ids.push_back({facts.st_dev, facts.st_ino});
  }
  return ids;
}

Result<uint64_t> check_models(const std::vector<std::string>& files) {
  std::set<std::string> counted;
  uint64_t size_bytes = 0;
  for (const std::string& path : files) {
    if (counted.count(identity(path))) continue;
    auto model = model::open_model_to_page(path);
    if (!model) return forward_error(std::move(model));
    for (const model::File& file : model->files) {
      if (counted.insert(identity(file.path)).second) size_bytes += file.size_bytes;
    }
  }
  return size_bytes;
}

}  // namespace weightpager::tools
