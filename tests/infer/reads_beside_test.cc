// Reads beside an inference that does not need them: all of the window's bytes in each pass, no
// other outputs, and an error where they cannot be read.
#include "runtime/infer/reads_beside.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "pager/base/units.h"
#include "tests/infer/small_network.h"
#include "tests/ops/compute_threads.h"

namespace weightpager::infer {
namespace {

class ReadsBesideTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override {
    make();
    auto streamed = Inference::open(
        network_, packed_path_,
        {.window = {.window_bytes = window_for_tiles(200 * KiB)}, .threads = ops::compute_threads});
    ASSERT_TRUE(streamed) << streamed.error().message;
    window_ = (*streamed)->window();
    auto beside = ReadsBeside::make(packed_path_, window_);
    ASSERT_TRUE(beside) << beside.error().message;
    beside_ = std::move(*beside);
    auto inference = Inference::open(network_, packed_path_,
                                     {.window = {.pipeline = pipeline::Pipeline::preload},
                                      .threads = ops::compute_threads,
                                      .beside_kernels = [this] {
                                        // Time for a read.
                                        std::this_thread::sleep_for(std::chrono::milliseconds(2));
                                        beside_->go_on();
                                      }});
    ASSERT_TRUE(inference) << inference.error().message;
    inference_ = std::move(*inference);
  }

  WindowUse window_;
  std::unique_ptr<ReadsBeside> beside_;
  std::unique_ptr<Inference> inference_;
};

TEST_F(ReadsBesideTest, EachPassReadsWhatTheWindowWouldAndChangesNoOutput) {
  const std::vector<float> expected = output_of(*inference_);
  ASSERT_FALSE(expected.empty());
  uint64_t pass_bytes = 0;
  for (const pipeline::UnitBytes& it : window_.units) {
    if (!it.is_pinned) pass_bytes += it.length_bytes;
  }
  ASSERT_GT(pass_bytes, window_.rings.bytes()) << "the ring never wrapped";
  const uint64_t all_bytes = inference_->read_bytes();
  EXPECT_EQ(beside_->read_bytes(), 0u);
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    beside_->begin();
    EXPECT_EQ(output_of(*inference_), expected);
    EXPECT_GT(beside_->read_bytes(), (pass - 1) * pass_bytes) << "all waited for the end";
    const Status read = beside_->finish();
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(beside_->read_bytes(), pass * pass_bytes);
  }
  EXPECT_EQ(inference_->read_bytes(), all_bytes);
}

TEST_F(ReadsBesideTest, AFileThatIsCutOffIsAnErrorOfTheReads) {
  const std::vector<float> expected = output_of(*inference_);
  std::filesystem::resize_file(packed_path_, 8 * KiB);
  beside_->begin();
  EXPECT_EQ(output_of(*inference_), expected);
  const Status read = beside_->finish();
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(packed_path_), std::string::npos);
}

}  // namespace
}  // namespace weightpager::infer
