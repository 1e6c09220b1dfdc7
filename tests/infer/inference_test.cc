// A whole network through the window on processors: what holds on every device, and how much is
// read.
#include "runtime/infer/inference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "pager/base/units.h"
#include "tests/infer/on_every_device.h"
#include "tests/io/faulty_reader.h"
#include "tests/ops/compute_threads.h"

namespace weightpager::infer {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, OnEveryDevice, testing::Values(TestedDevice{DeviceKind::cpu}));

class InferenceTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }

  Result<std::unique_ptr<Inference>> open(uint64_t window_bytes) {
    return Inference::open(
        network_, packed_path_,
        {.window = {.window_bytes = window_bytes}, .threads = ops::compute_threads});
  }
};

TEST_F(InferenceTest, SmallWindowsCutLayersAndReadNoMoreThanTheWeights) {
  const uint64_t window_bytes = window_for_tiles(200 * KiB);
  auto inference = open(window_bytes);
  ASSERT_TRUE(inference) << inference.error().message;
  EXPECT_GT((*inference)->window().pieces.size(), network_.layers.size());
  output_of(**inference);
  const uint64_t before_bytes = (*inference)->read_bytes();
  // The next image's first layers may be read already, and pages where pieces meet are read twice.
  output_of(**inference);
  const uint64_t pieces_bytes = (*inference)->window().pieces.size() * 2 * os_page_bytes;
  EXPECT_LE((*inference)->read_bytes() - before_bytes,
            network_.folded_bytes() + pieces_bytes + window_bytes);
}

TEST_F(InferenceTest, WhatFitsBeyondTheRingIsReadOnce) {
  auto inference = open(64 * MiB);
  ASSERT_TRUE(inference) << inference.error().message;
  output_of(**inference);
  const uint64_t once_bytes = (*inference)->read_bytes();
  output_of(**inference);
  EXPECT_EQ((*inference)->read_bytes(), once_bytes);
}

// What is promised: for one number of threads, whatever it is, the same bits at every window.
TEST_F(InferenceTest, EachNumberOfThreadsHasItsBitsAtEveryWindow) {
  for (const int threads : {1, 2, 3, 4, 5}) {
    std::vector<float> whole;
    for (const uint64_t window_bytes : {uint64_t{64 * MiB}, window_for_tiles(200 * KiB)}) {
      auto inference = Inference::open(
          network_, packed_path_, {.window = {.window_bytes = window_bytes}, .threads = threads});
      ASSERT_TRUE(inference) << inference.error().message;
      const std::vector<float> output = output_of(**inference);
      if (whole.empty()) whole = output;
      ASSERT_FALSE(whole.empty());
      EXPECT_EQ(output, whole) << threads << " threads, a window of " << window_bytes;
    }
  }
}

// Large activations at first, and the weights at the end: they come while the ring is full, to
// where activations are no longer.
constexpr const char* weights_at_the_end = R"(
[net]
height=192
width=192
channels=3
[convolutional]
filters=16
size=3
pad=1
activation=leaky
[maxpool]
size=8
stride=8
[convolutional]
filters=256
size=3
pad=1
activation=leaky
[convolutional]
filters=256
size=3
pad=1
activation=mish
[shortcut]
from=-2
activation=linear
[convolutional]
filters=64
size=3
pad=1
activation=logistic
)";

// Too small for the weights to stay, whatever the least tile of this processor.
constexpr uint64_t small_bytes = 512 * KiB;

TEST_F(InferenceTest, WeightsInTheArenaOverlayGiveTheSameBits) {
  make(weights_at_the_end);
  auto everything = Inference::open(
      network_, packed_path_,
      {.window = {.pipeline = pipeline::Pipeline::preload}, .threads = ops::compute_threads});
  ASSERT_TRUE(everything) << everything.error().message;
  const std::vector<float> expected = output_of(**everything);
  for (const std::string& path : {packed_path_, weights_path_}) {
    for (const uint32_t batch : {1, 2}) {
      auto inference = Inference::open(network_, path,
                                       {.window = {.window_bytes = window_for_tiles(small_bytes)},
                                        .threads = ops::compute_threads,
                                        .batch = batch});
      ASSERT_TRUE(inference) << inference.error().message;
      const WindowUse& use = (*inference)->window();
      ASSERT_GT(overlay_bytes(use), 256 * KiB);
      EXPECT_LE((*inference)->window_bytes(), window_for_tiles(small_bytes));
      for (int image = 0; image < 4; ++image) ASSERT_EQ(output_of(**inference), expected);
      // The same without the overlay, and with it again.
      for (const bool uses_overlay : {false, true}) {
        const Status set = (*inference)
                               ->set_window({.window_bytes = window_for_tiles(small_bytes),
                                             .uses_overlay = uses_overlay});
        ASSERT_TRUE(set) << set.error().message;
        EXPECT_EQ(overlay_bytes((*inference)->window()) > 0, uses_overlay);
        ASSERT_EQ(output_of(**inference), expected);
      }
    }
  }
}

// After a layer was computed with it; what came of that goes nowhere.
TEST_F(InferenceTest, ADamagedByteOfAnOverlaidUnitIsAnErrorInEveryPass) {
  make(weights_at_the_end);
  auto inference = open(window_for_tiles(small_bytes));
  ASSERT_TRUE(inference) << inference.error().message;
  ASSERT_GT(overlay_bytes((*inference)->window()), 256 * KiB);
  expect_damage_in_every_pass(**inference);
}

// 1024 channels in 13 pieces and in 11 have one in the middle in common, 480 to 560, and no others.
TEST_F(InferenceTest, AWindowThatCutsALayerInAnotherWayChecksItAnew) {
  make(
      "[net]\nheight=4\nwidth=4\nchannels=64\n"
      "[convolutional]\nfilters=1024\nsize=1\nactivation=linear\n");
  auto inference = open(0);
  ASSERT_TRUE(inference) << inference.error().message;
  const std::vector<float> expected = output_of(**inference);
  for (const uint64_t channels : {80, 96, 80}) {
    const uint64_t tile_bytes = channels * 64 * sizeof(float);
    const Status set = (*inference)->set_window({.tile_bytes_max = tile_bytes});
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_GT((*inference)->window().pieces.size(), 1u);
    for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(output_of(**inference), expected) << channels;
  }
}

// Packed weights have checksums (ADamagedByte…); others are looked at.
TEST_F(InferenceTest, WeightsThatAreChangedMeanwhileAreAnErrorAndNoMixture) {
  auto inference = Inference::open(
      network_, weights_path_,
      {.window = {.window_bytes = window_for_tiles(200 * KiB)}, .threads = ops::compute_threads});
  ASSERT_TRUE(inference) << inference.error().message;
  output_of(**inference);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a tick, where times have them
  std::fstream weights(weights_path_, std::ios::in | std::ios::out | std::ios::binary);
  weights.seekp(1000);
  weights.put('x');
  weights.close();
  // The first layers may have been read before that, for the next pass.
  Status failed = run(**inference);
  if (failed) failed = run(**inference);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("was changed"), std::string::npos);
}

TEST_F(InferenceTest, AFileThatIsCutOffMeanwhileIsAnError) {
  const InferenceOptions options = {.threads = ops::compute_threads,
                                    .open_reader = io::faulty_pread(io::at_read(
                                        3, {.kind = io::Fault::Kind::cut, .length_bytes = 10}))};
  auto inference = Inference::open(network_, packed_path_, options);
  ASSERT_TRUE(inference) << inference.error().message;
  EXPECT_FALSE(run(**inference));
}

}  // namespace
}  // namespace weightpager::infer
