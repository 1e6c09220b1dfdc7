#include "runtime/pipeline/layer_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/model/known_formats.h"

namespace weightpager::pipeline {
namespace {

// Larger gaps hold more than padding: GGUF aligns to 32 bytes unless a file says otherwise.
constexpr uint64_t gap_bytes_max = os_page_bytes;

Result<LayerRange> range_of(const model::Model& model, const model::Layer& layer) {
  std::vector<const model::Tensor*> tensors;
  for (const uint32_t index : layer.tensors) {
    if (model.tensors[index].size_bytes > 0) tensors.push_back(&model.tensors[index]);
  }
  if (tensors.empty()) return LayerRange{.name = layer.name};
  std::sort(tensors.begin(), tensors.end(),
            [](const auto* a, const auto* b) { return a->offset_bytes < b->offset_bytes; });
  const uint64_t begin_bytes = tensors.front()->offset_bytes;
  uint64_t end_bytes = begin_bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const model::Tensor& tensor = *tensors[i];
    if (tensor.offset_bytes > end_bytes + gap_bytes_max) {
      return fail(
          fmt::format("{}: the tensors of layer '{}' do not lie together: {} ends at byte {}, {} "
                      "begins at byte {}",
                      model.files[0].path, layer.name, tensors[i - 1]->name, end_bytes, tensor.name,
                      tensor.offset_bytes),
          "give the stream byte ranges of its own, one for each piece that shall come as one; "
          "`weightpager model show --json` prints where tensors lie",
          ENOTSUP);
    }
    end_bytes = std::max(end_bytes, tensor.offset_bytes + tensor.size_bytes);
  }
  return LayerRange{layer.name, begin_bytes, end_bytes - begin_bytes};
}

/// "GGUF, safetensors".
std::string titles_of_known_formats() {
  std::string titles;
  for (const model::KnownFormat& format : model::known_formats()) {
    if (!titles.empty()) titles += ", ";
    titles += format.title;
  }
  return titles;
}

}  // namespace

Result<std::vector<LayerRange>> layer_ranges(const model::Model& model) {
  WP_ASSERT(model.files.size() == 1);
  if (model.format == model::Format::plain) {
    return fail(fmt::format("{}: in no format whose layers are known ({})", model.files[0].path,
                            titles_of_known_formats()),
                "give the stream the layers as byte ranges of the file", ENOTSUP);
  }
  std::vector<LayerRange> ranges;
  for (const model::Layer& layer : model.layers) {
    auto range = range_of(model, layer);
    if (!range) return forward_error(std::move(range));
    ranges.push_back(std::move(*range));
  }
  return ranges;
}

}  // namespace weightpager::pipeline
