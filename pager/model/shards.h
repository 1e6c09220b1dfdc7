// Which files belong to a model.
//
// A split GGUF says how many shards it has and the file names say the rest:
// `name-00001-of-00003.gguf`. Sharded safetensors files have an index next to them,
// `name.safetensors.index.json`, whose weight_map says which tensor is in which file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/parsers.h"

namespace weightpager::model {

inline constexpr std::string_view index_suffix = ".safetensors.index.json";

/// All shards of the model that `any` shard belongs to, in order of their numbers.
Result<std::vector<ParsedFile>> read_gguf_shards(const ParsedFile& any);

/// All files that the index names, in order of their names.
Result<std::vector<ParsedFile>> read_indexed_files(const std::string& index_path);

/// The index that lists this safetensors file, if there is one. An index that cannot be understood
/// is an error.
Result<std::optional<std::string>> find_index(const std::string& path);

}  // namespace weightpager::model
