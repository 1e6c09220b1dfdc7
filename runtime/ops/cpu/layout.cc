#include "runtime/ops/cpu/layout.h"

#include <fmt/format.h>

#include "pager/base/assert.h"
#include "runtime/ops/cpu/primitive.h"

namespace weightpager::ops {
namespace {

using dnnl::memory;

memory::format_tag tag(Layout layout) {
  switch (layout) {
    case Layout::nchw:
      return memory::format_tag::nchw;
    case Layout::nhwc:
      return memory::format_tag::nhwc;
    case Layout::nChw8c:
      return memory::format_tag::nChw8c;
    case Layout::nChw16c:
      return memory::format_tag::nChw16c;
  }
  WP_ASSERT(!"a layout that is not in the list");
}

}  // namespace

memory::desc picture(const network::Shape& shape, Layout layout) {
  return memory::desc({1, shape.channels, shape.height, shape.width}, memory::data_type::f32,
                      tag(layout));
}

uint64_t picture_bytes(const network::Shape& shape, Layout layout) {
  return picture(shape, layout).get_size();
}

uint64_t picture_floats(const network::Shape& shape, Layout layout) {
  return picture_bytes(shape, layout) / sizeof(float);
}

Result<LayoutChange> LayoutChange::make(const network::Shape& shape, Layout from, Layout to) {
  try {
    LayoutChange made;
    made.from_ = memory(picture(shape, from), cpu_engine(), DNNL_MEMORY_NONE);
    made.to_ = memory(picture(shape, to), cpu_engine(), DNNL_MEMORY_NONE);
    made.reorder_ = dnnl::reorder(made.from_, made.to_);
    return made;
  } catch (const dnnl::error& error) {
    return fail(fmt::format("oneDNN cannot change {} × {} × {} from {} to {}: {} (status {})",
                            shape.channels, shape.height, shape.width, layout_name(from),
                            layout_name(to), error.what(), static_cast<int>(error.status)));
  }
}

Status LayoutChange::run(const float* input, float* output) {
  try {
    dnnl::stream stream(cpu_engine());
    from_.set_data_handle(const_cast<float*>(input));
    to_.set_data_handle(output);
    reorder_.execute(stream, from_, to_);
    return {};
  } catch (const dnnl::error& error) {
    return fail(fmt::format("oneDNN failed while it changed a layout: {} (status {})", error.what(),
                            static_cast<int>(error.status)));
  }
}

}  // namespace weightpager::ops
