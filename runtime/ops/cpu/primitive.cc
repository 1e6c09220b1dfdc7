#include "runtime/ops/cpu/primitive.h"

#include <fmt/format.h>

#include <string_view>

#include "pager/base/assert.h"

namespace weightpager::ops {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Dims = memory::dims;

memory::desc dense(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t axis = dims.size() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * dims[axis];
  }
  return memory::desc(dims, memory::data_type::f32, strides);
}

memory::desc of_image(const network::Shape& shape) {
  return dense({1, shape.channels, shape.height, shape.width});
}

dnnl::primitive_attr followed_by(const std::optional<Elementwise>& function) {
  dnnl::primitive_attr attributes;
  if (function) {
    dnnl::post_ops after;
    after.append_eltwise(1, function->algorithm, function->alpha, function->beta);
    attributes.set_post_ops(after);
  }
  return attributes;
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::optional<Elementwise> Elementwise::of(network::Activation activation) {
  switch (activation) {
    case network::Activation::linear:
      return std::nullopt;
    case network::Activation::leaky:
      return Elementwise{algorithm::eltwise_relu, 0.1f};
    case network::Activation::relu:
      return Elementwise{algorithm::eltwise_relu};
    case network::Activation::logistic:
      return logistic();
    case network::Activation::mish:
      return Elementwise{algorithm::eltwise_mish};
    case network::Activation::swish:
      return Elementwise{algorithm::eltwise_swish, 1.0f};
  }
  WP_ASSERT(!"an activation that is not in the list");
}

void Primitive::add_argument(int number, const memory::desc& description) {
  memories_.push_back(memory(description, cpu_engine(), DNNL_MEMORY_NONE));
  arguments_.push_back({number, memories_.back().get()});
}

template <typename Description, typename Describe>
Result<Primitive> Primitive::make(const char* name, Describe describe,
                                  dnnl::primitive_attr attributes) {
  try {
    // The caller brings scratch memory: oneDNN's own would grow while layers run.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    // next_impl() uses this object again, so it must not be a temporary.
    const auto wanted = describe();
    typename Description::primitive_desc description(wanted, attributes, cpu_engine());
    while (std::string_view(description.impl_info_str()).starts_with("ref")) {
      if (!description.next_impl()) {
        return fail(fmt::format("oneDNN has only its reference implementation for {}, which is a "
                                "hundred times too slow",
                                name),
                    "unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA; processors before SSE 4.1 are "
                    "too old");
      }
    }
    Primitive made;
    made.primitive_ = Description(description);
    made.is_without_vectors_ = std::string_view(description.impl_info_str()).starts_with("simple");
    made.add_argument(DNNL_ARG_SRC, description.query_md(dnnl::query::src_md, 0));
    if constexpr (std::is_same_v<Description, dnnl::binary>) {
      made.add_argument(DNNL_ARG_SRC_1, description.query_md(dnnl::query::src_md, 1));
    }
    made.add_argument(DNNL_ARG_DST, description.query_md(dnnl::query::dst_md, 0));
    made.add_argument(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    return made;
  } catch (const dnnl::error& error) {
    return fail(fmt::format("oneDNN cannot compute {}: {} (status {})", name, error.what(),
                            static_cast<int>(error.status)));
  }
}

Result<Primitive> Primitive::elementwise(const Elementwise& function, uint64_t elements) {
  return make<dnnl::eltwise_forward>("an activation", [&] {
    return dnnl::eltwise_forward::desc(prop_kind::forward_inference, function.algorithm,
                                       dense({static_cast<int64_t>(elements)}), function.alpha,
                                       function.beta);
  });
}

Result<Primitive> Primitive::max_pool(const network::Layer& layer, Layout layout) {
  const auto& pool = std::get<network::MaxPool>(layer.operation);
  const int64_t before = pool.padding / 2;
  const int64_t after = pool.padding - before;
  const int64_t size = pool.size;
  const int64_t stride = pool.stride;
  return make<dnnl::pooling_forward>("a maximum over windows", [&] {
    return dnnl::pooling_forward::desc(prop_kind::forward_inference, algorithm::pooling_max,
                                       picture(layer.input, layout), picture(layer.output, layout),
                                       {stride, stride}, {size, size}, {before, before},
                                       {after, after});
  });
}

Result<Primitive> Primitive::average_pool(const network::Layer& layer) {
  const int64_t height = layer.input.height;
  const int64_t width = layer.input.width;
  return make<dnnl::pooling_forward>("means of channels", [&] {
    return dnnl::pooling_forward::desc(
        prop_kind::forward_inference, algorithm::pooling_avg_exclude_padding, of_image(layer.input),
        of_image({layer.input.channels, 1, 1}), {height, width}, {height, width}, {0, 0}, {0, 0});
  });
}

Result<Primitive> Primitive::nearest_upsample(const network::Layer& layer, Layout layout) {
  const float scale = std::get<network::Upsample>(layer.operation).scale;
  const std::optional<Elementwise> scaling =
      scale == 1 ? std::nullopt : std::optional(Elementwise::linear(scale, 0));
  return make<dnnl::resampling_forward>(
      "a repetition of rows and columns",
      [&] {
        return dnnl::resampling_forward::desc(
            prop_kind::forward_inference, algorithm::resampling_nearest,
            picture(layer.input, layout), picture(layer.output, layout));
      },
      followed_by(scaling));
}

Result<Primitive> Primitive::softmax(uint64_t groups, uint64_t elements_per_group) {
  return make<dnnl::softmax_forward>("softmax", [&] {
    return dnnl::softmax_forward::desc(
        prop_kind::forward_inference,
        dense({static_cast<int64_t>(groups), static_cast<int64_t>(elements_per_group)}), 1);
  });
}

Result<Primitive> Primitive::add(uint64_t elements, network::Activation activation) {
  return make<dnnl::binary>(
      "a sum",
      [&] {
        const memory::desc flat = dense({1, static_cast<int64_t>(elements)});
        return dnnl::binary::desc(algorithm::binary_add, flat, flat, flat);
      },
      followed_by(Elementwise::of(activation)));
}

uint64_t Primitive::scratch_bytes() const { return memories_.back().get_desc().get_size(); }

void Primitive::use_scratch(void* memory) {
  if (scratch_bytes() > 0) memories_.back().set_data_handle(memory);
}

Status Primitive::run(dnnl::stream& stream, std::initializer_list<const float*> pointers) {
  WP_ASSERT(pointers.size() + 1 == memories_.size());
  size_t position = 0;
  for (const float* pointer : pointers) {
    // oneDNN's calls take pointers without const, even for sources.
    const auto status =
        dnnl_memory_set_data_handle(memories_[position++].get(), const_cast<float*>(pointer));
    WP_ASSERT(status == dnnl_success);
  }
  const auto status = dnnl_primitive_execute(
      primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    return fail(fmt::format("oneDNN failed while it computed a layer (status {})",
                            static_cast<int>(status)),
                "status 1 is want of memory: leave more for others, or make the window smaller");
  }
  return {};
}

}  // namespace weightpager::ops
