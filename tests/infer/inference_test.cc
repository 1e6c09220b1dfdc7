// A whole network through the window: the same bits from every pipeline, window and kind of file,
// and an error instead of an output whenever something goes wrong.
#include "runtime/infer/inference.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "pager/base/units.h"
#include "tests/infer/small_network.h"
#include "tests/io/faulty_reader.h"
#include "tests/ops/compute_threads.h"
#include "tests/pipeline/some_units.h"

namespace weightpager::infer {
namespace {

using pipeline::Pipeline;

class InferenceTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }

  Result<std::unique_ptr<Inference>> open(const WindowRequest& window, bool is_packed = true) {
    return Inference::open(network_, is_packed ? packed_path_ : weights_path_,
                           {.window = window, .threads = ops::compute_threads});
  }

  std::vector<float> reference() {
    auto inference = open({.pipeline = Pipeline::preload});
    EXPECT_TRUE(inference) << inference.error().message;
    return inference ? output_of(**inference) : std::vector<float>();
  }

  InferenceOptions with_fault(const io::Fault& fault) const {
    return {.threads = ops::compute_threads,
            .open_reader = io::faulty_pread(io::at_read(3, fault))};
  }
};

TEST_F(InferenceTest, EveryPipelineAndWindowGivesTheSameBits) {
  const std::vector<float> expected = reference();
  ASSERT_FALSE(expected.empty());
  const auto [least, most] = std::minmax_element(expected.begin(), expected.end());
  ASSERT_LT(*least, *most) << "an output that is all the same proves nothing";
  for (const Pipeline pipeline : pipeline::pipelines) {
    // 0: as small as it goes without tiles; the small ones need tiles.
    for (const uint64_t window_bytes : {uint64_t{0}, 340 * KiB, 700 * KiB, 1500 * KiB, 64 * MiB}) {
      for (const bool is_packed : {true, false}) {
        if (pipeline == Pipeline::preload && window_bytes > 0 && window_bytes < 64 * MiB) continue;
        auto inference = open({.pipeline = pipeline, .window_bytes = window_bytes}, is_packed);
        ASSERT_TRUE(inference) << inference.error().message;
        EXPECT_LE((*inference)->window_bytes(), window_bytes > 0 ? window_bytes : 64 * MiB);
        for (int image = 0; image < 3; ++image) {
          ASSERT_EQ(output_of(**inference), expected)
              << name(pipeline) << ", window " << window_bytes << ", packed " << is_packed;
        }
      }
    }
  }
}

TEST_F(InferenceTest, SmallWindowsCutLayersAndReadNoMoreThanTheWeights) {
  auto inference = open({.window_bytes = 200 * KiB});
  ASSERT_TRUE(inference) << inference.error().message;
  EXPECT_GT((*inference)->window().pieces.size(), network_.layers.size());
  output_of(**inference);
  const uint64_t before_bytes = (*inference)->read_bytes();
  // The next image's first layers may be read already, and pages where pieces meet are read twice.
  output_of(**inference);
  const uint64_t pieces_bytes = (*inference)->window().pieces.size() * 2 * os_page_bytes;
  EXPECT_LE((*inference)->read_bytes() - before_bytes,
            network_.folded_bytes() + pieces_bytes + 200 * KiB);
}

TEST_F(InferenceTest, WhatFitsBeyondTheRingIsReadOnce) {
  auto inference = open({.window_bytes = 64 * MiB});
  ASSERT_TRUE(inference) << inference.error().message;
  output_of(**inference);
  const uint64_t once_bytes = (*inference)->read_bytes();
  output_of(**inference);
  EXPECT_EQ((*inference)->read_bytes(), once_bytes);
}

TEST_F(InferenceTest, AWindowSmallerThanATileIsRefusedAndSaysWhatWouldDo) {
  const auto inference = open({.window_bytes = 8 * KiB});
  ASSERT_FALSE(inference);
  EXPECT_NE(inference.error().message.find("too small"), std::string::npos);
  EXPECT_NE(inference.error().hint.find("--window"), std::string::npos);
}

TEST_F(InferenceTest, AReadErrorInTheMiddleIsAnErrorAndTheNextImageIsRight) {
  const std::vector<float> expected = reference();
  auto inference = Inference::open(
      network_, packed_path_, with_fault({.kind = io::Fault::Kind::error, .error_number = EIO}));
  ASSERT_TRUE(inference) << inference.error().message;
  const Status failed = run(**inference);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().error_number, EIO);
  EXPECT_NE(failed.error().message.find(packed_path_ + ", byte "), std::string::npos);
  EXPECT_EQ(output_of(**inference), expected);
}

TEST_F(InferenceTest, AFileThatIsCutOffMeanwhileIsAnError) {
  auto inference = Inference::open(network_, packed_path_,
                                   with_fault({.kind = io::Fault::Kind::cut, .length_bytes = 10}));
  ASSERT_TRUE(inference) << inference.error().message;
  EXPECT_FALSE(run(**inference));
}

TEST_F(InferenceTest, ADamagedByteOfPackedWeightsIsNeverComputedWith) {
  for (const uint64_t window_bytes : {uint64_t{0}, 200 * KiB}) {
    auto inference = open({.window_bytes = window_bytes});
    ASSERT_TRUE(inference) << inference.error().message;
    // After the file was opened and checked.
    flip_a_packed_bit();
    const Status failed = run(**inference);
    ASSERT_FALSE(failed) << "window " << window_bytes;
    EXPECT_NE(failed.error().message.find("checksum"), std::string::npos);
    flip_a_packed_bit();
    EXPECT_TRUE(run(**inference));
  }
}

TEST_F(InferenceTest, ABatchReadsTheWeightsOnceAndGivesEachImageItsOwnAnswer) {
  auto alone = open({.window_bytes = 340 * KiB});
  ASSERT_TRUE(alone) << alone.error().message;
  const InferenceOptions options = {.window = {.window_bytes = 340 * KiB},
                                    .reads_across_inferences = false,
                                    .threads = ops::compute_threads,
                                    .batch = 3};
  auto batch = Inference::open(network_, packed_path_, options);
  ASSERT_TRUE(batch) << batch.error().message;
  uint64_t unit_bytes = 0;
  for (const pipeline::UnitBytes& it : (*batch)->window().units) unit_bytes += it.length_bytes;
  std::vector<std::vector<float>> images(3, input_);
  for (size_t i = 0; i < images.size(); ++i) images[i][i * 100] += 0.5f;
  // All three, then two: a batch need not be full.
  for (const size_t count : {3, 2}) {
    std::vector<std::span<const float>> inputs;
    for (size_t i = 0; i < count; ++i) inputs.emplace_back(images[i]);
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

TEST_F(InferenceTest, TwoAtOnceAreBothRight) {
  const std::vector<float> expected = reference();
  std::vector<std::thread> threads;
  for (const bool is_packed : {true, false}) {
    threads.emplace_back([&, is_packed] {
      auto inference = open({.window_bytes = 300 * KiB}, is_packed);
      ASSERT_TRUE(inference) << inference.error().message;
      for (int image = 0; image < 5; ++image) EXPECT_EQ(output_of(**inference), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weightpager::infer
