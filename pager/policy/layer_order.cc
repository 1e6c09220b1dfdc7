#include "pager/policy/layer_order.h"

#include <algorithm>
#include <limits>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

constexpr size_t not_placed = std::numeric_limits<size_t>::max();
// Neighbouring tensors share a chunk at no cost: it has not been evicted yet when the second
// begins.
constexpr size_t revisit_distance_chunks = 4;

}  // namespace

void append_chunk_order(const model::Model& model, uint32_t file, const ChunkRange& range,
                        ChunkOrder& order) {
  const uint64_t first_in_file = range.offset_bytes / chunk_bytes;
  std::vector<size_t> places(range.count, not_placed);
  std::vector<bool> is_revisited(range.count, false);

  const auto visit = [&](uint64_t chunk_in_file) {
    if (chunk_in_file < first_in_file || chunk_in_file >= first_in_file + range.count) return;
    const auto index = static_cast<uint32_t>(chunk_in_file - first_in_file);
    if (places[index] == not_placed) {
      places[index] = order.cyclic.size();
      order.cyclic.push_back(range.first + index);
      return;
    }
    if (order.cyclic.size() - places[index] <= revisit_distance_chunks) return;
    if (!is_revisited[index]) order.revisited.push_back(range.first + index);
    is_revisited[index] = true;
  };

  for (const model::Layer& layer : model.layers) {
    if (layer.access == model::Access::sparse) continue;
    for (uint32_t tensor_index : layer.tensors) {
      const model::Tensor& tensor = model.tensors[tensor_index];
      if (tensor.file != file || tensor.size_bytes == 0) continue;
      const uint64_t last = (tensor.offset_bytes + tensor.size_bytes - 1) / chunk_bytes;
      for (uint64_t chunk = tensor.offset_bytes / chunk_bytes; chunk <= last; ++chunk) visit(chunk);
    }
  }
}

}  // namespace weightpager::policy
