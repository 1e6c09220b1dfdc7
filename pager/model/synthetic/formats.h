// The formats that models are made in.
#pragma once

#include "pager/base/result.h"
#include "pager/model/ggml_types.h"
#include "pager/model/synthetic/make_model.h"

namespace weightpager::model {

/// What both formats are made from.
struct MakePlan {
  const MakeOptions& options;
  const GgmlType& type;
  LlamaShape shape;
};

/// One file, `options.path`. Returns its size.
Result<uint64_t> make_gguf(const MakePlan& plan);

/// A directory, `options.path`, with one file, or several and an index, and config.json. Returns
/// the size of the files with weights.
Result<uint64_t> make_safetensors(const MakePlan& plan);

}  // namespace weightpager::model
