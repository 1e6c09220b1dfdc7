// One operation of oneDNN, ready to run: its code is chosen and compiled when it is made, so
// running it only takes pointers.
//
// Of oneDNN's implementations of an operation, the first one is taken that is not a reference
// implementation. Reference implementations ("ref:any") are refused, because they are a hundred
// times slower and nothing else would show that.
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

/// A function that is applied to each element by itself. Leaky, mish, … come from
/// network::Activation; `linear` is factor · x + term.
struct Elementwise {
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_linear;
  float alpha = 0;
  float beta = 0;

  /// Nothing for the linear activation, which changes no value.
  static std::optional<Elementwise> of(network::Activation activation);
  static Elementwise logistic() { return {dnnl::algorithm::eltwise_logistic}; }
  static Elementwise linear(float factor, float term) {
    return {dnnl::algorithm::eltwise_linear, factor, term};
  }
  auto operator<=>(const Elementwise&) const = default;
};

/// Not thread-safe: it keeps the pointers of the present run. Tensors are dense, in 32-bit floats,
/// in the order channels, height, width if no layout is given.
class Primitive {
 public:
  static Result<Primitive> elementwise(const Elementwise& function, uint64_t elements);
  static Result<Primitive> max_pool(const network::Layer& layer, Layout layout = Layout::nchw);
  static Result<Primitive> average_pool(const network::Layer& layer);
  static Result<Primitive> nearest_upsample(const network::Layer& layer,
                                            Layout layout = Layout::nchw);
  static Result<Primitive> softmax(uint64_t groups, uint64_t elements_per_group);
  static Result<Primitive> add(uint64_t elements, network::Activation activation);

  /// Size of the memory that runs overwrite. If it is not 0, call `use_scratch` before the first
  /// run. Primitives that run one after the other may share the memory.
  uint64_t scratch_bytes() const;
  /// `memory` begins at a multiple of scratch_alignment, and outlives the primitive.
  void use_scratch(void* memory);
  static constexpr uint64_t scratch_alignment = 64;

  /// `pointers`: the source, the second source if the operation has two, then the destination. They
  /// may be the same memory if their shapes are the same.
  Status run(dnnl::stream& stream, std::initializer_list<const float*> pointers);

  /// Whether oneDNN has only a loop over single numbers for this: correct, but some 20 times as
  /// slow as vector code.
  bool is_without_vectors() const { return is_without_vectors_; }

 private:
  // `number`: oneDNN's number of the argument. The arguments of run() are added first, in its
  // order.
  void add_argument(int number, const dnnl::memory::desc& description);
  template <typename Description, typename Describe>
  static Result<Primitive> make(const char* name, Describe describe,
                                dnnl::primitive_attr attributes = {});

  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // the last one is scratch memory
  std::vector<dnnl_exec_arg_t> arguments_;
  bool is_without_vectors_ = false;
};

}  // namespace weightpager::ops
