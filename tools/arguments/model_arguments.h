// Which of an engine's arguments are model files, and whether these are sound.
//
// weightpager does not know the engines' flags. It takes for a model what exists and is one by its
// name or its first bytes (pager/model/recognise.h), as the interposer does: `-m llama.gguf`,
// `--model=llama.gguf`, a directory of safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/recognise.h"

namespace weightpager::tools {

/// The file names that are paged, for people: the built-in patterns and the user's `--match` globs.
std::vector<std::string> model_patterns(const std::vector<std::string>& match);

/// Models among `arguments`, or behind their first '='; for a directory the safetensors files in it
/// and those that one of the globs means. Each once, in order.
std::vector<std::string> find_model_files(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& match);

/// Which files these are.
std::vector<model::FileId> ids_of(const std::vector<std::string>& files);

/// Opens the models that `files` belong to, and gives their size together: shards and splits count
/// with all their files, once. The error is that of the first model that cannot be trusted.
Result<uint64_t> check_models(const std::vector<std::string>& files);

}  // namespace weightpager::tools
