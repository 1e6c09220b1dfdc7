// See on_every_device.h: the same bits from every pipeline, window and kind of file, and an error
// instead of an output whenever something goes wrong.
#include "tests/infer/on_every_device.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "pager/base/units.h"
#include "tests/base/lacks.h"
#include "tests/io/faulty_reader.h"
#include "tests/ops/compute_threads.h"
#include "tests/pipeline/some_units.h"

namespace weightpager::infer {

using pipeline::Pipeline;
using pipeline::pipelines;

void OnEveryDevice::SetUp() {
  WP_SKIP_FOR(GetParam().missing ? GetParam().missing() : std::nullopt);
  make();
}

InferenceOptions OnEveryDevice::options(const WindowRequest& window) const {
  return {.window = window, .device = GetParam().kind, .threads = ops::compute_threads};
}

Result<std::unique_ptr<Inference>> OnEveryDevice::open(const WindowRequest& window,
                                                       bool is_packed) const {
  return Inference::open(network_, is_packed ? packed_path_ : weights_path_, options(window));
}

std::vector<float> OnEveryDevice::reference() const {
  auto inference = open({.pipeline = Pipeline::preload});
  EXPECT_TRUE(inference) << inference.error().message;
  return inference ? output_of(**inference) : std::vector<float>();
}

TEST_P(OnEveryDevice, EveryPipelineAndWindowGivesTheSameBits) {
  const std::vector<float> expected = reference();
  ASSERT_FALSE(expected.empty());
  const auto [least, most] = std::minmax_element(expected.begin(), expected.end());
  ASSERT_LT(*least, *most) << "an output that is all the same proves nothing";
  for (const Pipeline pipeline : pipelines) {
    // 0: as small as it goes without tiles; the small ones need tiles. A GPU's rings come in steps
    // of 2 MiB, if there is room.
    for (const uint64_t window_bytes :
         {uint64_t{0}, window_for_tiles(340 * KiB), window_for_tiles(700 * KiB), 1500 * KiB,
          5 * MiB, 64 * MiB}) {
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

TEST_P(OnEveryDevice, AWindowSmallerThanATileIsRefusedAndSaysWhatWouldDo) {
  for (const Pipeline pipeline : pipelines) {
    const auto inference = open({.pipeline = pipeline, .window_bytes = 8 * KiB});
    ASSERT_FALSE(inference) << name(pipeline);
    EXPECT_NE(inference.error().message.find("too small"), std::string::npos);
    EXPECT_NE(inference.error().hint.find("--window"), std::string::npos);
  }
}

TEST_P(OnEveryDevice, AReadErrorInTheMiddleIsAnErrorAndTheNextImageIsRight) {
  const std::vector<float> expected = reference();
  for (const Pipeline pipeline : pipelines) {
    InferenceOptions with_fault = options({.pipeline = pipeline});
    with_fault.open_reader =
        io::faulty_pread(io::at_read(3, {.kind = io::Fault::Kind::error, .error_number = EIO}));
    auto inference = Inference::open(network_, packed_path_, with_fault);
    ASSERT_TRUE(inference) << inference.error().message;
    const Status failed = run(**inference);
    ASSERT_FALSE(failed) << name(pipeline);
    EXPECT_EQ(failed.error().error_number, EIO);
    EXPECT_NE(failed.error().message.find(packed_path_ + ", byte "), std::string::npos);
    EXPECT_EQ(output_of(**inference), expected) << name(pipeline);
  }
}

// Who reads ahead does so from when it was opened, so what is damaged later may have been read, and
// rightly, before that: there the byte is damaged first.
TEST_P(OnEveryDevice, ADamagedByteOfPackedWeightsIsNeverComputedWith) {
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    for (const uint64_t window_bytes : {uint64_t{0}, window_for_tiles(340 * KiB)}) {
      for (const bool reads_ahead : {true, false}) {
        const WindowRequest window = {.pipeline = pipeline, .window_bytes = window_bytes};
        InferenceOptions of_one = options(window);
        of_one.reads_across_inferences = reads_ahead;
        if (reads_ahead) flip_a_packed_bit();
        auto inference = Inference::open(network_, packed_path_, of_one);
        ASSERT_TRUE(inference) << inference.error().message;
        if (!reads_ahead) flip_a_packed_bit();
        const Status failed = run(**inference);
        ASSERT_FALSE(failed) << name(pipeline) << ", window " << window_bytes << ", reads ahead "
                             << reads_ahead;
        EXPECT_NE(failed.error().message.find("checksum"), std::string::npos);
        flip_a_packed_bit();
        EXPECT_TRUE(run(**inference));
      }
    }
  }
}

TEST_P(OnEveryDevice, ABatchReadsTheWeightsOnceAndGivesEachImageItsOwnAnswer) {
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    const WindowRequest window = {.pipeline = pipeline,
                                  .window_bytes = window_for_tiles(340 * KiB)};
    auto alone = open(window);
    ASSERT_TRUE(alone) << alone.error().message;
    InferenceOptions of_three = options(window);
    of_three.reads_across_inferences = false;
    of_three.batch = 3;
    auto batch = Inference::open(network_, packed_path_, of_three);
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
        EXPECT_EQ(last_output(**batch, i), output_of(**alone)) << name(pipeline) << ", " << i;
      }
    }
  }
}

TEST_P(OnEveryDevice, SeveralAtOnceAreAllRight) {
  const std::vector<float> expected = reference();
  std::vector<std::thread> threads;
  for (const Pipeline pipeline : {Pipeline::asynchronous, Pipeline::two_stage}) {
    for (const bool is_packed : {true, false}) {
      threads.emplace_back([&, pipeline, is_packed] {
        auto inference =
            open({.pipeline = pipeline, .window_bytes = window_for_tiles(400 * KiB)}, is_packed);
        ASSERT_TRUE(inference) << inference.error().message;
        for (int image = 0; image < 3; ++image) EXPECT_EQ(output_of(**inference), expected);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weightpager::infer
