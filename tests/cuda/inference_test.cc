// A whole network on a GPU: near the processor's results, the same bits from every pipeline, window
// and number of pieces, and errors instead of results.
#include "runtime/infer/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "pager/base/units.h"
#include "tests/cuda/gpu.h"
#include "tests/infer/small_network.h"
#include "tests/io/faulty_reader.h"
#include "tests/ops/compute_threads.h"
#include "tests/pipeline/some_units.h"

namespace weightpager::infer {
namespace {

using pipeline::Pipeline;
using pipeline::pipelines;

class CudaInferenceTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override {
    WP_SKIP_WITHOUT_GPU();
    make();
  }

  Result<std::unique_ptr<Inference>> open(const WindowRequest& window, bool is_packed = true) {
    return Inference::open(network_, is_packed ? packed_path_ : weights_path_,
                           {.window = window, .device = DeviceKind::cuda});
  }

  std::vector<float> reference() {
    auto inference = open({.pipeline = Pipeline::preload});
    EXPECT_TRUE(inference) << inference.error().message;
    return inference ? output_of(**inference) : std::vector<float>();
  }
};

TEST_F(CudaInferenceTest, IsNearTheProcessors) {
  auto processor = Inference::open(network_, packed_path_, {.threads = ops::compute_threads});
  ASSERT_TRUE(processor) << processor.error().message;
  const std::vector<float> expected = output_of(**processor);
  const std::vector<float> found = reference();
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-3 * largest) << i;
}

TEST_F(CudaInferenceTest, EveryPipelineAndWindowGivesTheSameBits) {
  const std::vector<float> expected = reference();
  ASSERT_FALSE(expected.empty());
  for (const Pipeline pipeline : pipelines) {
    // 0: as small as it goes without tiles; the small ones need tiles.
    for (const uint64_t window_bytes : {uint64_t{0}, 340 * KiB, 700 * KiB, 5 * MiB, 64 * MiB}) {
      for (const bool is_packed : {true, false}) {
        if (pipeline == Pipeline::preload && window_bytes > 0 && window_bytes < 64 * MiB) continue;
        auto inference = open({.pipeline = pipeline, .window_bytes = window_bytes}, is_packed);
        ASSERT_TRUE(inference) << inference.error().message;
        EXPECT_LE((*inference)->window_bytes(), window_bytes > 0 ? window_bytes : 64 * MiB);
        for (int image = 0; image < 2; ++image) {
          ASSERT_EQ(output_of(**inference), expected)
              << name(pipeline) << ", window " << window_bytes << ", packed " << is_packed;
        }
      }
    }
  }
}

TEST_F(CudaInferenceTest, AWindowSmallerThanATileIsRefusedAndSaysWhatWouldDo) {
  for (const Pipeline pipeline : pipelines) {
    const auto inference = open({.pipeline = pipeline, .window_bytes = 8 * KiB});
    ASSERT_FALSE(inference);
    EXPECT_NE(inference.error().message.find("too small"), std::string::npos);
    EXPECT_NE(inference.error().hint.find("--window"), std::string::npos);
  }
}

TEST_F(CudaInferenceTest, AReadErrorInTheMiddleIsAnErrorAndTheNextImageIsRight) {
  const std::vector<float> expected = reference();
  for (const Pipeline pipeline : pipelines) {
    const InferenceOptions options = {
        .window = {.pipeline = pipeline},
        .device = DeviceKind::cuda,
        .open_reader = io::faulty_pread(
            io::at_read(3, {.kind = io::Fault::Kind::error, .error_number = EIO}))};
    auto inference = Inference::open(network_, packed_path_, options);
    ASSERT_TRUE(inference) << inference.error().message;
    const Status failed = run(**inference);
    ASSERT_FALSE(failed) << name(pipeline);
    EXPECT_NE(failed.error().message.find(packed_path_ + ", byte "), std::string::npos);
    EXPECT_EQ(output_of(**inference), expected) << name(pipeline);
  }
}

TEST_F(CudaInferenceTest, ADamagedByteOfPackedWeightsIsNeverAResult) {
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    auto inference = open({.pipeline = pipeline, .window_bytes = 400 * KiB});
    ASSERT_TRUE(inference) << inference.error().message;
    flip_a_packed_bit();
    const Status failed = run(**inference);
    ASSERT_FALSE(failed) << name(pipeline);
    EXPECT_NE(failed.error().message.find("checksum"), std::string::npos);
    flip_a_packed_bit();
    EXPECT_TRUE(run(**inference));
  }
}

TEST_F(CudaInferenceTest, ABatchReadsTheWeightsOnceAndGivesEachImageItsOwnAnswer) {
  auto alone = open({.pipeline = Pipeline::asynchronous});
  ASSERT_TRUE(alone) << alone.error().message;
  auto batch = Inference::open(network_, packed_path_,
                               {.window = {.pipeline = Pipeline::asynchronous},
                                .device = DeviceKind::cuda,
                                .reads_across_inferences = false,
                                .batch = 3});
  ASSERT_TRUE(batch) << batch.error().message;
  uint64_t unit_bytes = 0;
  for (const pipeline::UnitBytes& it : (*batch)->window().units) unit_bytes += it.length_bytes;
  std::vector<std::vector<float>> images(3, input_);
  for (size_t i = 0; i < images.size(); ++i) images[i][i * 100] += 0.5f;
  // All three, then two: a batch need not be full.
  for (const size_t count : {3, 2}) {
    const std::vector<std::span<const float>> inputs(
        images.begin(), images.begin() + static_cast<ptrdiff_t>(count));
    const uint64_t before_bytes = (*batch)->read_bytes();
    const Status ran = (*batch)->run(inputs);
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_LE((*batch)->read_bytes() - before_bytes, unit_bytes);
    for (size_t i = 0; i < count; ++i) {
      input_ = images[i];
      EXPECT_EQ(last_output(**batch, i), output_of(**alone)) << i;
    }
  }
}

TEST_F(CudaInferenceTest, TwoAtOnceAreBothRight) {
  const std::vector<float> expected = reference();
  std::vector<std::thread> threads;
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    threads.emplace_back([&, pipeline] {
      auto inference = open({.pipeline = pipeline, .window_bytes = 400 * KiB});
      ASSERT_TRUE(inference) << inference.error().message;
      for (int image = 0; image < 5; ++image) EXPECT_EQ(output_of(**inference), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weightpager::infer
