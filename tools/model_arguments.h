// Which of an engine's arguments are model files, and whether these are sound.
//
// weightpager does not know the engines' flags. It takes for a model what exists and is called like
// one: `-m llama.gguf`, `--model=llama.gguf`, a directory of safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::tools {

/// The file names that are paged: the built-in patterns and the user's `--match` globs.
std::vector<std::string> model_patterns(const std::vector<std::string>& match);

/// Whether `path` is a model by its name. A glob without '/' is compared with the last part of the
/// path, one with '/' with all of it.
bool is_model_name(const std::string& path, const std::vector<std::string>& patterns);

/// Existing files among `arguments`, or behind their first '=', whose names match; for a directory
/// the safetensors files in it. Each once, in order.
std::vector<std::string> find_model_files(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& patterns);

/// Opens the models that `files` belong to, and gives their size together: shards and splits count
/// with all their files, once. The error is that of the first model that cannot be trusted.
Result<uint64_t> check_models(const std::vector<std::string>& files);

}  // namespace weightpager::tools
