#include "pager/policy/layer_order.h"

#include <algorithm>
#include <limits>

#include "pager/base/units.h"

namespace weightpager::policy {
namespace {

constexpr size_t not_placed = std::numeric_limits<size_t>::max();
// Neighbouring tensors share a chunk at no cost: the chunk has not been evicted yet when the second
// tensor begins.
constexpr uint64_t revisit_distance_bytes = 8 * MiB;

/// Bytes of the file that one expert uses, or several that are joined.
struct FileBytes {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Orderer {
 public:
  Orderer(const model::Model& model, uint32_t file, const ChunkRange& range, ChunkOrder& order)
      : model_(model),
        file_(file),
        range_(range),
        order_(order),
        places_(range.count, not_placed),
        is_revisited_(range.count, false),
        has_beginning_(range.count, false),
        has_end_(range.count, false),
        is_of_experts_(model.tensors.size(), false) {
    for (const model::Expert& expert : model.experts) {
      for (const model::Slab& slab : expert.slabs) is_of_experts_[slab.tensor] = true;
    }
  }

  void add_layers() {
    for (const model::Layer& layer : model_.layers) {
      if (layer.access == model::Access::sparse) continue;
      const auto begin = static_cast<uint32_t>(order_.cyclic.size());
      for (uint32_t tensor : layer.tensors) {
        if (!is_of_experts_[tensor]) add_tensor(model_.tensors[tensor]);
      }
      if (order_.cyclic.size() > begin) order_.layer_begins.push_back(begin);
    }
  }

  void add_shared() {
    for (uint32_t index = 1; index + 1 < range_.count; ++index) {
      if (has_beginning_[index] && has_end_[index]) order_.shared.push_back(range_.first + index);
    }
  }

  void add_experts() {
    // Other regions' layers come first.
    const uint32_t first_layer = order_.experts.empty() ? 0 : order_.experts.back().layer + 1;
    size_t next = 0;
    while (next < model_.experts.size()) {
      const uint32_t layer = first_layer + model_.experts[next].layer;
      add_expert(layer, take_joined(next));
    }
  }

 private:
  void add_tensor(const model::Tensor& tensor) {
    if (tensor.file != file_ || tensor.size_bytes == 0) return;
    const FileBytes extent{tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes};
    const uint64_t first = extent.begin / range_.chunk_bytes;
    const uint64_t last = (extent.end - 1) / range_.chunk_bytes;
    for_each_chunk(extent, [&](uint32_t index, uint32_t, uint32_t) {
      visit(index);
      if (first == last) return;
      const uint64_t chunk = range_.offset_bytes / range_.chunk_bytes + index;
      if (chunk == first) has_beginning_[index] = true;
      if (chunk == last) has_end_[index] = true;
    });
  }

  void visit(uint32_t index) {
    if (places_[index] == not_placed) {
      places_[index] = order_.cyclic.size();
      order_.cyclic.push_back(range_.first + index);
      return;
    }
    const uint64_t distance_bytes = (order_.cyclic.size() - places_[index]) * range_.chunk_bytes;
    if (distance_bytes <= revisit_distance_bytes) return;
    if (!is_revisited_[index]) order_.revisited.push_back(range_.first + index);
    is_revisited_[index] = true;
  }

  /// Calls `use(index, begin_bytes, end_bytes)` for every chunk that the bytes lie in: its index in
  /// the region, and the part of the chunk that they fill.
  template <typename Use>
  void for_each_chunk(const FileBytes& extent, Use use) const {
    const uint64_t chunk_bytes = range_.chunk_bytes;
    const uint64_t first_in_file = range_.offset_bytes / chunk_bytes;
    for (uint64_t chunk = extent.begin / chunk_bytes; chunk * chunk_bytes < extent.end; ++chunk) {
      if (chunk < first_in_file || chunk >= first_in_file + range_.count) continue;
      const uint64_t begin = std::max(extent.begin, chunk * chunk_bytes) - chunk * chunk_bytes;
      const uint64_t end = std::min(extent.end - chunk * chunk_bytes, chunk_bytes);
      use(static_cast<uint32_t>(chunk - first_in_file), static_cast<uint32_t>(begin),
          static_cast<uint32_t>(end));
    }
  }

  std::vector<FileBytes> extents_of(const model::Expert& expert) const {
    std::vector<FileBytes> extents;
    for (const model::Slab& slab : expert.slabs) {
      if (model_.tensors[slab.tensor].file != file_) continue;
      extents.push_back({slab.offset_bytes, slab.offset_bytes + slab.size_bytes});
    }
    return extents;
  }

  /// The bytes of expert `next` and of those after it that it is joined with; `next` moves on
  /// behind them.
  std::vector<FileBytes> take_joined(size_t& next) const {
    const uint32_t layer = model_.experts[next].layer;
    std::vector<FileBytes> joined = extents_of(model_.experts[next++]);
    while (next < model_.experts.size() && model_.experts[next].layer == layer &&
           is_short(joined)) {
      const std::vector<FileBytes> more = extents_of(model_.experts[next]);
      if (!continues(joined, more)) break;
      for (size_t i = 0; i < joined.size(); ++i) joined[i].end = more[i].end;
      ++next;
    }
    return joined;
  }

  bool is_short(const std::vector<FileBytes>& extents) const {
    return std::any_of(extents.begin(), extents.end(), [&](const FileBytes& extent) {
      return extent.end - extent.begin < range_.chunk_bytes;
    });
  }

  static bool continues(const std::vector<FileBytes>& extents, const std::vector<FileBytes>& more) {
    return std::equal(extents.begin(), extents.end(), more.begin(), more.end(),
                      [](const FileBytes& a, const FileBytes& b) { return a.end == b.begin; });
  }

  void add_expert(uint32_t layer, const std::vector<FileBytes>& extents) {
    ExpertChunks expert{.layer = layer, .slabs = {}};
    for (const FileBytes& extent : extents) {
      std::vector<ChunkPart> parts;
      for_each_chunk(extent, [&](uint32_t index, uint32_t begin_bytes, uint32_t end_bytes) {
        if (places_[index] == not_placed) {
          parts.push_back({range_.first + index, begin_bytes, end_bytes});
        }
      });
      expert.slabs.push_back(std::move(parts));
    }
    order_.experts.push_back(std::move(expert));
  }

  const model::Model& model_;
  const uint32_t file_;
  const ChunkRange range_;
  ChunkOrder& order_;
  std::vector<size_t> places_;
  std::vector<bool> is_revisited_;
  std::vector<bool> has_beginning_;  // by chunk: of a tensor that goes on in the next one
  std::vector<bool> has_end_;        // by chunk: of a tensor that began in an earlier one
  std::vector<bool> is_of_experts_;  // by tensor
};

}  // namespace

void append_chunk_order(const model::Model& model, uint32_t file, const ChunkRange& range,
                        ChunkOrder& order) {
  Orderer orderer(model, file, range, order);
  orderer.add_layers();
  orderer.add_shared();
  orderer.add_experts();
}

void erase_chunks(ChunkOrder& order, const std::function<bool(ChunkId)>& is_gone) {
  std::vector<uint32_t> left_before{0};
  for (ChunkId chunk : order.cyclic) left_before.push_back(left_before.back() + !is_gone(chunk));
  for (uint32_t& begin : order.layer_begins) begin = left_before[begin];
  std::erase(order.layer_begins, left_before.back());
  const auto end = std::unique(order.layer_begins.begin(), order.layer_begins.end());
  order.layer_begins.erase(end, order.layer_begins.end());
  std::erase_if(order.cyclic, is_gone);
  std::erase_if(order.revisited, is_gone);
  std::erase_if(order.shared, is_gone);
  std::erase_if(order.kept, is_gone);
  AccessProfile left;
  for (size_t at = 0; at < order.access_profile.order.size(); ++at) {
    if (is_gone(order.access_profile.order[at])) continue;
    left.order.push_back(order.access_profile.order[at]);
    left.computed_ns.push_back(order.access_profile.computed_ns[at]);
  }
  order.access_profile = std::move(left);
  for (ExpertChunks& expert : order.experts) {
    for (std::vector<ChunkPart>& slab : expert.slabs) {
      std::erase_if(slab, [&](const ChunkPart& part) { return is_gone(part.chunk); });
    }
  }
}

}  // namespace weightpager::policy
