// One operation of oneDNN, made ready: which code computes it is chosen and compiled when it is
// made, so that running it takes pointers and nothing else.
//
// Of the implementations that oneDNN has for an operation the first is taken that is no reference
// implementation; those ("ref:any") are a hundred times slower and would go unnoticed otherwise.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/layout.h"

namespace weightpager::ops {

/// oneDNN's view of the processors. Its objects work together only if they share it.
const dnnl::engine& cpu_engine();

/// What is computed of each element by itself. Leaky, mish, … are network::Activation's; `linear`
/// is factor · x + term.
struct Elementwise {
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_linear;
  float alpha = 0;
  float beta = 0;

  /// Nothing for the linear activation, which leaves everything as it is.
  static std::optional<Elementwise> of(network::Activation activation);
  static Elementwise logistic() { return {dnnl::algorithm::eltwise_logistic}; }
  static Elementwise linear(float factor, float term) {
    return {dnnl::algorithm::eltwise_linear, factor, term};
  }
  auto operator<=>(const Elementwise&) const = default;
};

/// Not thread-safe: it keeps the pointers of the run that goes on. Tensors are dense, 32-bit
/// floats, in the order channels, height, width where no layout is given.
class Primitive {
 public:
  static Result<Primitive> elementwise(const Elementwise& function, uint64_t elements);
  static Result<Primitive> max_pool(const network::Layer& layer, Layout layout = Layout::nchw);
  static Result<Primitive> average_pool(const network::Layer& layer);
  static Result<Primitive> nearest_upsample(const network::Layer& layer,
                                            Layout layout = Layout::nchw);
  static Result<Primitive> softmax(uint64_t groups, uint64_t elements_per_group);
  static Result<Primitive> add(uint64_t elements, network::Activation activation);

  /// Memory that runs overwrite. Where it is any, `use_scratch` comes before the first run; several
  /// primitives that run one after the other may be given the same.
  uint64_t scratch_bytes() const;
  /// At a multiple of scratch_alignment, and outlives the primitive.
  void use_scratch(void* memory);
  static constexpr uint64_t scratch_alignment = 64;

  /// Source, second source where the operation has two, then destination. May be the same memory
  /// where shapes are the same.
  Status run(dnnl::stream& stream, std::initializer_list<const float*> pointers);

  /// Whether all that oneDNN has here is a loop over single numbers: right, and some 20 times as
  /// slow as vector code.
  bool is_without_vectors() const { return is_without_vectors_; }

 private:
  // oneDNN's number of each argument; the user's come first, in the order that run() takes them.
  void add_argument(int number, const dnnl::memory::desc& description);
  template <typename Description, typename Describe>
  static Result<Primitive> make(const char* name, Describe describe,
                                dnnl::primitive_attr attributes = {});

  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // the last is scratch memory
  std::vector<dnnl_exec_arg_t> arguments_;
  bool is_without_vectors_ = false;
};

}  // namespace weightpager::ops
