// Delay models: every part is a time of a byte, an operation, a tensor or a block.
#include <string_view>

#include "pager/base/assert.h"
#include "tools/formats/delay_model_file.h"

namespace tools = weightpager::tools;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto model = tools::parse_delay_model(text, "model");
  if (!model) {
    WP_ASSERT(model.error().message.starts_with("model: "));
    return 0;
  }
  for (const double ns :
       {model->read_ns_per_byte, model->read_ns_per_tensor, model->read_ns_per_block,
        model->kernel_ns_per_operation, model->kernel_ns_per_layer, model->release_ns_per_tensor,
        model->release_ns_per_block}) {
    WP_ASSERT(ns >= 0 && ns <= 1e9);
  }
  return 0;
}
