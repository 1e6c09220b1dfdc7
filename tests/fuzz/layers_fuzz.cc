// From names to layers. The input's lines are the names of tensors, the first byte of each its
// size.
#include <sstream>
#include <vector>

#include "pager/model/layers.h"
#include "tests/fuzz/fuzzed_file.h"

namespace model = weightpager::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), length_bytes));
  model::Model model;
  uint64_t offset_bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const uint64_t size_bytes = static_cast<uint8_t>(line.front());
    model.tensors.push_back({.name = line.substr(1),
                             .type = "U8",
                             .shape = {size_bytes},
                             .offset_bytes = offset_bytes,
                             .size_bytes = size_bytes});
    offset_bytes += size_bytes;
  }
  model.files.push_back({"model", offset_bytes});
  model::group_layers(model);
  weightpager::fuzz::check_model(model);

  // Every tensor is in a layer; one of them, the tied embedding, may be in two. A layer is as large
  // as its tensors are.
  std::vector<int> uses(model.tensors.size());
  for (const model::Layer& layer : model.layers) {
    uint64_t layer_bytes = 0;
    for (const uint32_t tensor : layer.tensors) {
      ++uses[tensor];
      layer_bytes += model.tensors[tensor].size_bytes;
    }
    WP_ASSERT(layer_bytes == layer.size_bytes);
  }
  for (const int times : uses) WP_ASSERT(times == 1 || times == 2);
  return 0;
}
