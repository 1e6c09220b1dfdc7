// Where a model's layers lie in its file, for streams that give each layer in one piece.
//
// Problem. A layer is several tensors, and each file format orders tensors in its own way: GGUF
// writers block after block, safetensors by name. But a stream reads a layer with one read and
// shows it at one address, just as it lies in the file.
//
// Idea. If a layer's tensors follow each other, with only padding for alignment between them, the
// layer is one range. Any other layer is an error that names the layer: a caller who knows what its
// pieces are for can pass ranges of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"

namespace weightpager::pipeline {

/// A layer's bytes in its file.
struct LayerRange {
  /// For messages; may be empty.
  std::string name;
  uint64_t offset_bytes = 0;
  /// 0: the layer has no weights.
  uint64_t length_bytes = 0;
};

/// One range per layer of a model of one file, in execution order.
Result<std::vector<LayerRange>> layer_ranges(const model::Model& model);

}  // namespace weightpager::pipeline
