// Finds the model files among an engine's arguments, and checks that they are sound.
//
// weightpager does not know the engines' flags. Like the interposer, it takes an argument for a
// model if a file of that name exists and its name or its first bytes are those of a model
// (pager/model/recognise.h): `-m llama.gguf`, `--model=llama.gguf`, a directory of safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/recognise.h"

namespace weightpager::tools {

/// The names of files that are paged, for messages: the built-in patterns and the user's `--match`
/// globs.
std::vector<std::string> model_patterns(const std::vector<std::string>& match);

/// The models among `arguments`, or behind the first '=' of an argument. For a directory these are
/// the safetensors files in it, and the files that match one of the globs. Each once, in order.
std::vector<std::string> find_model_files(const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& match);

/// The device and inode of each file that exists.
std::vector<model::FileId> ids_of(const std::vector<std::string>& files);

/// Opens the models that `files` belong to, and returns the sum of their sizes in bytes. A sharded
/// or split model counts once, with all its files. The error is that of the first model that cannot
/// be trusted.
Result<uint64_t> check_models(const std::vector<std::string>& files);

}  // namespace weightpager::tools
