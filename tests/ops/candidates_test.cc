// Every candidate for a convolution computes what its definition says, from any layout to any, and
// needs no more memory than it says.
#include <gtest/gtest.h>
#include <omp.h>

#include <map>
#include <set>

#include "runtime/ops/cpu/convolution_candidate.h"
#include "tests/ops/compute_threads.h"
#include "tests/ops/layers.h"
#include "tests/ops/naive.h"

namespace weightpager::ops {
namespace {

using naive::Values;
using network::Layer;
using network::Shape;

// Floats at the alignment that candidates want, and a guard behind them.
class Guarded {
 public:
  explicit Guarded(uint64_t size_bytes)
      : floats_((size_bytes + sizeof(float) - 1) / sizeof(float)),
        values_(floats_ + alignment_floats + guard_floats, 0) {
    void* begin = values_.data();
    size_t space = values_.size() * sizeof(float);
    data_ = static_cast<float*>(std::align(candidate_alignment, 1, begin, space));
    std::fill_n(data_ + floats_, guard_floats, guard);
  }
  float* data() { return data_; }
  void fill(const Values& values) { std::copy(values.begin(), values.end(), data_); }
  bool is_guard_whole() const {
    return std::all_of(data_ + floats_, data_ + floats_ + guard_floats,
                       [](float value) { return value == guard; });
  }

 private:
  static constexpr uint64_t alignment_floats = candidate_alignment / sizeof(float);
  static constexpr uint64_t guard_floats = 64;
  static constexpr float guard = 1234.5f;

  uint64_t floats_;
  Values values_;
  float* data_ = nullptr;
};

void change(const Shape& shape, Layout from, Layout to, float* input, float* output) {
  auto made = LayoutChange::make(shape, from, to);
  ASSERT_TRUE(made) << made.error().message;
  const Status ran = made->run(input, output);
  ASSERT_TRUE(ran) << ran.error().message;
}

// What a candidate computes, in Darknet's layout.
Values run_candidate(ConvolutionCandidate& candidate, const Layer& layer, const Weights& weights,
                     const Values& picture) {
  const auto& traits = candidate.traits();
  Guarded plain_input(picture_bytes(layer.input, Layout::nchw));
  Guarded input(picture_bytes(layer.input, traits.layout_in));
  Guarded packed(traits.packed_bytes);
  Guarded biases(weights.biases.size() * sizeof(float));
  Guarded output(picture_bytes(layer.output, traits.layout_out));
  Guarded workspace(traits.workspace_bytes);
  Guarded plain_output(picture_bytes(layer.output, Layout::nchw));
  plain_input.fill(picture);
  biases.fill(weights.biases);
  change(layer.input, Layout::nchw, traits.layout_in, plain_input.data(), input.data());
  std::fill_n(output.data(), layer.output.elements(), NAN);
  const Status packing = candidate.pack(weights.first(), packed.data());
  EXPECT_TRUE(packing) << packing.error().message;
  const Status ran =
      candidate.run({input.data(), biases.data(), packed.data(), output.data(), workspace.data()});
  EXPECT_TRUE(ran) << ran.error().message;
  change(layer.output, traits.layout_out, Layout::nchw, output.data(), plain_output.data());
  EXPECT_TRUE(packed.is_guard_whole() && output.is_guard_whole() && workspace.is_guard_whole());
  return Values(plain_output.data(), plain_output.data() + layer.output.elements());
}

class Candidates : public testing::TestWithParam<std::pair<Shape, network::Convolutional>> {
 protected:
  void SetUp() override { omp_set_num_threads(compute_threads); }
};

TEST_P(Candidates, ComputeWhatTheDefinitionSays) {
  const Layer layer = convolutional(GetParam().first, GetParam().second);
  const Weights weights(layer);
  const Values picture = naive::random_values(layer.input.elements(), 9);
  const Values expected = naive::convolutional(layer, picture, weights.biases, weights.plain());
  const auto candidates = convolution_candidates(layer, compute_threads);
  EXPECT_GE(candidates.size(), 2u);
  for (const auto& candidate : candidates) {
    const auto& traits = candidate->traits();
    SCOPED_TRACE(traits.name + " " + layout_name(traits.layout_in) + " to " +
                 layout_name(traits.layout_out));
    // Winograd's transforms round more than plain sums do.
    const double tolerance = traits.name.find("wino") != std::string::npos ? 1e-4 : 4e-6;
    EXPECT_LT(relative_error(expected, run_candidate(*candidate, layer, weights, picture)),
              tolerance);
  }
}

using network::Activation;

INSTANTIATE_TEST_SUITE_P(
    Shapes, Candidates,
    testing::Values(std::pair(Shape{3, 33, 41}, network::Convolutional{32, 3, 1, 1}),
                    std::pair(Shape{3, 67, 67}, network::Convolutional{96, 11, 4, 0}),
                    std::pair(Shape{64, 28, 28}, network::Convolutional{96, 3, 1, 1}),
                    std::pair(Shape{64, 30, 21}, network::Convolutional{48, 3, 2, 1}),
                    std::pair(Shape{64, 20, 20}, network::Convolutional{128, 1, 1, 0}),
                    std::pair(Shape{64, 20, 20}, network::Convolutional{128, 1, 2, 0}),
                    std::pair(Shape{24, 14, 14}, network::Convolutional{40, 5, 1, 2}),
                    std::pair(Shape{64, 1, 1}, network::Convolutional{40, 1, 1, 0}),
                    std::pair(Shape{17, 9, 5}, network::Convolutional{19, 3, 1, 0}),
                    std::pair(Shape{16, 2, 2}, network::Convolutional{16, 5, 1, 3}),
                    std::pair(Shape{192, 80, 80}, network::Convolutional{16, 3, 1, 1}),
                    std::pair(Shape{64, 14, 14}, network::Convolutional{96, 3, 1, 1, 2}),
                    std::pair(Shape{24, 9, 9}, network::Convolutional{24, 3, 1, 1, 24})));

// Of one pixel both plain layouts are the same to oneDNN's cache: a profile of such a layer and the
// network that runs by it once disagreed about what there is.
TEST(Candidates, AreTheSameWheneverOneAsks) {
  omp_set_num_threads(compute_threads);
  const Layer layer = convolutional({256, 1, 1}, {100, 1, 1, 0});
  const auto first = convolution_candidates(layer, compute_threads);
  const auto second = convolution_candidates(layer, compute_threads);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i]->traits().name, second[i]->traits().name);
    EXPECT_EQ(first[i]->traits().layout_in, second[i]->traits().layout_in);
    EXPECT_EQ(first[i]->traits().layout_out, second[i]->traits().layout_out);
  }
}

TEST(Candidates, AreManyForLayersThatTakeTheTime) {
  omp_set_num_threads(compute_threads);
  const Layer layer = convolutional({64, 56, 56}, {192, 3, 1, 1});
  std::map<std::string, int> names;
  std::set<std::pair<uint64_t, uint64_t>> needs;
  const auto candidates = convolution_candidates(layer, compute_threads);
  for (const auto& it : candidates) {
    ++names[it->traits().name];
    needs.emplace(it->traits().workspace_bytes, it->traits().packed_bytes);
    EXPECT_GE(it->traits().packed_bytes, layer.weights() * sizeof(float)) << it->traits().name;
  }
  EXPECT_GE(candidates.size(), 20u);
  EXPECT_GE(needs.size(), 5u);
  const std::map<std::string, int> ours = {
      {"im2col", 2}, {"im2col-strips", 2}, {"im2row", 2}, {"im2row-strips", 2},
      {"kn2row", 4}, {"direct", 4},        {"tiles", 1}};
  for (const auto& [name, count] : ours) EXPECT_EQ(names[name], count) << name;
}

}  // namespace
}  // namespace weightpager::ops
