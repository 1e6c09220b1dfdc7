// What a parser makes of one file; model.cc puts files together into a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/header_reader.h"
#include "pager/model/model.h"

namespace weightpager::model {

struct ParsedFile {
  Format format = Format::plain;
  File file;
  std::string architecture;
  /// As in Model.
  uint64_t experts_used = 0;
  /// Names differ within the file; tensors lie inside it, behind its header, and do not overlap.
  /// The parser checks all this, and its errors name the offset in the header. Tensor::file is 0.
  /// Empty tensors, bytes that belong to no tensor, and files without tensors are allowed unless
  /// the format forbids them. The parser sets `format` and `file`, too.
  std::vector<Tensor> tensors;
  /// Of a split GGUF: this shard's number from 0 on, how many there are, and the tensors of them
  /// all.
  uint64_t shard = 0;
  uint64_t shard_count = 1;
  uint64_t model_tensor_count = 0;
};

/// Require that the reader is at the start of a file.
Result<ParsedFile> parse_gguf(HeaderReader& reader);
Result<ParsedFile> parse_safetensors(HeaderReader& reader);
/// Each storage is a tensor; says HeaderReader::unknown() of other zip archives.
Result<ParsedFile> parse_torch(HeaderReader& reader);
/// One tensor over the whole file. Refuses files whose name promises a format that they do not
/// have.
Result<ParsedFile> parse_plain(HeaderReader& reader);

/// What a file consists of whose format is not understood.
Tensor whole_file_tensor(uint64_t size_bytes);

/// Any of these, as the first bytes tell (known_formats.h).
Result<ParsedFile> parse_file(const std::string& path);

}  // namespace weightpager::model
