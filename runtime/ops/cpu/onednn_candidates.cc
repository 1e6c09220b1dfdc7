// oneDNN's convolutions. Each request gives both pictures' layouts, so oneDNN's own preference does
// not matter, and leaves the weights' layout open. Reference implementations are left out: they are
// a hundred times slower.
#include <fmt/format.h>

#include <set>
#include <string_view>
#include <tuple>

#include "runtime/ops/cpu/convolution_candidate.h"
#include "runtime/ops/cpu/primitive.h"

namespace weightpager::ops {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Forward = dnnl::convolution_forward;

memory::dims plain_weight_dims(const network::Layer& layer) {
  const auto& it = std::get<network::Convolutional>(layer.operation);
  const memory::dim inputs = layer.input.channels / it.groups;
  if (it.groups == 1) return {it.filters, inputs, it.size, it.size};
  return {it.groups, it.filters / it.groups, inputs, it.size, it.size};
}

memory::desc weights(const network::Layer& layer, bool is_plain) {
  const memory::dims dims = plain_weight_dims(layer);
  const auto plain = dims.size() == 4 ? memory::format_tag::oihw : memory::format_tag::goihw;
  return memory::desc(dims, memory::data_type::f32, is_plain ? plain : memory::format_tag::any);
}

Status failed(const char* what, const dnnl::error& error) {
  return fail(fmt::format("oneDNN failed while it {}: {} (status {})", what, error.what(),
                          static_cast<int>(error.status)),
              "status 1 is want of memory: leave more for others");
}

class OnednnCandidate : public ConvolutionCandidate {
 public:
  OnednnCandidate(Traits traits, const network::Layer& layer,
                  const Forward::primitive_desc& description)
      : ConvolutionCandidate(std::move(traits)),
        plain_(weights(layer, true)),
        forward_(description),
        source_(memory(description.src_desc(), cpu_engine(), DNNL_MEMORY_NONE)),
        packed_(memory(description.weights_desc(), cpu_engine(), DNNL_MEMORY_NONE)),
        biases_(memory(description.bias_desc(), cpu_engine(), DNNL_MEMORY_NONE)),
        output_(memory(description.dst_desc(), cpu_engine(), DNNL_MEMORY_NONE)),
        workspace_(memory(description.scratchpad_desc(), cpu_engine(), DNNL_MEMORY_NONE)) {}

  Status pack(const float* weights, float* packed) override {
    try {
      dnnl::stream stream(cpu_engine());
      memory from(plain_, cpu_engine(), const_cast<float*>(weights));
      packed_.set_data_handle(packed);
      dnnl::reorder(from, packed_).execute(stream, from, packed_);
      return {};
    } catch (const dnnl::error& error) {
      return failed("packed weights", error);
    }
  }

  Status run(const Pointers& pointers) override {
    try {
      // oneDNN's calls take pointers without const, even for sources.
      source_.set_data_handle(const_cast<float*>(pointers.input));
      packed_.set_data_handle(const_cast<float*>(pointers.packed));
      biases_.set_data_handle(const_cast<float*>(pointers.biases));
      output_.set_data_handle(pointers.output);
      workspace_.set_data_handle(pointers.workspace);
      dnnl::stream stream(cpu_engine());
      forward_.execute(stream, {{DNNL_ARG_SRC, source_},
                                {DNNL_ARG_WEIGHTS, packed_},
                                {DNNL_ARG_BIAS, biases_},
                                {DNNL_ARG_DST, output_},
                                {DNNL_ARG_SCRATCHPAD, workspace_}});
      return {};
    } catch (const dnnl::error& error) {
      return failed("computed a convolution", error);
    }
  }

 private:
  memory::desc plain_;
  Forward forward_;
  memory source_;
  memory packed_;
  memory biases_;
  memory output_;
  memory workspace_;
};

Forward::desc describe(const network::Layer& layer, algorithm method, Layout in, Layout out) {
  const auto& it = std::get<network::Convolutional>(layer.operation);
  const memory::dims strides = {it.stride, it.stride};
  // At the right and the bottom, less padding than at the left and the top may be used. The
  // output's size says how much.
  const auto after = [&](uint32_t length_in, uint32_t length_out) {
    return int64_t{length_out - 1} * it.stride + it.size - length_in - it.padding;
  };
  const memory::desc biases({it.filters}, memory::data_type::f32, memory::format_tag::a);
  return Forward::desc(dnnl::prop_kind::forward_inference, method, picture(layer.input, in),
                       weights(layer, false), biases, picture(layer.output, out), strides,
                       {it.padding, it.padding},
                       {after(layer.input.height, layer.output.height),
                        after(layer.input.width, layer.output.width)});
}

// While this object lives, oneDNN keeps no primitives in its cache. For pictures of one pixel the
// cache does not distinguish nchw from nhwc: for one layout it would return an implementation that
// was asked for with the other. The set of candidates must not depend on that.
class WithoutPrimitiveCache {
 public:
  WithoutPrimitiveCache() { dnnl::set_primitive_cache_capacity(0); }
  // The C call, which throws nothing.
  ~WithoutPrimitiveCache() { dnnl_set_primitive_cache_capacity(capacity_); }
  WithoutPrimitiveCache(const WithoutPrimitiveCache&) = delete;
  WithoutPrimitiveCache& operator=(const WithoutPrimitiveCache&) = delete;

 private:
  const int capacity_ = dnnl::get_primitive_cache_capacity();
};

// Implementations that were found already: oneDNN lists some for several algorithms.
using Known = std::set<std::tuple<std::string, Layout, Layout>>;

void add_implementations(const network::Layer& layer, algorithm method, Layout in, Layout out,
                         const IsWanted& is_wanted, Known& known,
                         ConvolutionCandidates& candidates) {
  try {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    // next_impl() uses this object again, so it must not be a temporary.
    const Forward::desc wanted = describe(layer, method, in, out);
    Forward::primitive_desc description(wanted, attributes, cpu_engine());
    do {
      const std::string name = description.impl_info_str();
      if (std::string_view(name).starts_with("ref")) continue;
      if (!known.emplace(name, in, out).second) continue;
      const ConvolutionCandidate::Traits traits = {name, in, out,
                                                   description.scratchpad_desc().get_size(),
                                                   description.weights_desc().get_size()};
      if (!is_wanted(traits)) continue;
      candidates.push_back(std::make_unique<OnednnCandidate>(traits, layer, description));
    } while (description.next_impl());
  } catch (const dnnl::error&) {
    // There is no implementation for these layouts; there may be some for others.
  }
}

}  // namespace

ConvolutionCandidates onednn_candidates(const network::Layer& layer, const IsWanted& is_wanted) {
  const WithoutPrimitiveCache fresh;
  ConvolutionCandidates candidates;
  Known known;
  for (const algorithm method : {algorithm::convolution_direct, algorithm::convolution_winograd}) {
    for (const Layout in : all_layouts) {
      for (const Layout out : all_layouts) {
        add_implementations(layer, method, in, out, is_wanted, known, candidates);
      }
    }
  }
  return candidates;
}

}  // namespace weightpager::ops
