#include "tools/model_arguments.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "pager/model/model.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

const char* const safetensors_pattern = "*.safetensors";

std::vector<std::string> safetensors_in(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code ignored;  // what cannot be listed, the engine will complain about
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (is_model_name(entry.path().string(), {safetensors_pattern})) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> files_named_by(const std::string& argument,
                                        const std::vector<std::string>& patterns) {
  std::error_code ignored;
  if (fs::is_directory(argument, ignored)) return safetensors_in(argument);
  if (fs::is_regular_file(argument, ignored) && is_model_name(argument, patterns)) {
    return {argument};
  }
  return {};
}

/// One name per file, however it was spelt.
std::string identity(const std::string& path) {
  std::error_code ignored;
  const fs::path canonical = fs::canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

}  // namespace

std::vector<std::string> model_patterns(const std::vector<std::string>& match) {
  std::vector<std::string> patterns = {"*.gguf", safetensors_pattern};
  patterns.insert(patterns.end(), match.begin(), match.end());
  return patterns;
}

bool is_model_name(const std::string& path, const std::vector<std::string>& patterns) {
  const std::string name = fs::path(path).filename().string();
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    const bool whole_path = pattern.find('/') != std::string::npos;
    return fnmatch(pattern.c_str(), whole_path ? path.c_str() : name.c_str(), 0) == 0;
  });
}

std::vector<std::string> find_model_files(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& patterns) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    for (const std::string& file : files_named_by(name, patterns)) {
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

Result<uint64_t> check_models(const std::vector<std::string>& files) {
  std::set<std::string> counted;
  uint64_t size_bytes = 0;
  for (const std::string& path : files) {
    if (counted.count(identity(path))) continue;
    auto model = model::open_model(path);
    if (!model) return forward_error(std::move(model));
    for (const model::File& file : model->files) {
      if (counted.insert(identity(file.path)).second) size_bytes += file.size_bytes;
    }
  }
  return size_bytes;
}

}  // namespace weightpager::tools
