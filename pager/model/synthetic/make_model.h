// Makes synthetic models: valid files with random weights that real engines load and generate from.
//
// Whoever measures paging needs models of every size, and neither downloads nor licences. The
// weights are noise of a sensible scale, so that activations stay finite and greedy decoding
// varies; the words that come out mean nothing. The same options give the same bytes on every
// machine. Cost: what writing the file costs; generating runs at some GB/s and thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/model/synthetic/shape.h"

namespace weightpager::model {

inline constexpr uint64_t made_size_bytes_min = uint64_t{8} << 20;
inline constexpr uint64_t made_size_bytes_max = uint64_t{16} << 40;
/// As many as llama.cpp takes.
inline constexpr uint64_t made_experts_max = 256;

/// Bytes written and bytes that there will be. Called from one thread at a time.
using OnProgress = std::function<void(uint64_t, uint64_t)>;

struct MakeOptions {
  /// The file; for safetensors the directory.
  std::string path;
  Format format = Format::gguf;
  /// As in `type_names_for`.
  std::string type = "f16";
  /// Met within 2 %.
  uint64_t size_bytes = 0;
  /// None: a dense network.
  ExpertCounts experts;
  uint64_t seed = 1;
  unsigned threads = 2;
  /// Replace what is at `path`.
  bool overwrite = false;
  OnProgress on_progress;
};

struct MadeModel {
  LlamaShape shape;
  /// All files together.
  uint64_t size_bytes = 0;
};

/// What is wrong with type, size and experts, whatever is on the disk. make_model checks it, too.
Status check_make_options(const MakeOptions& options);

/// Writes the model under temporary names and renames at the end, so that there is never half a
/// model under its final name.
Result<MadeModel> make_model(const MakeOptions& options);

/// "f32, f16, …": the types that a format can be made with.
std::string type_names_for(Format format);

}  // namespace weightpager::model
