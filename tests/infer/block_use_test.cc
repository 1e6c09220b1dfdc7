// Networks in blocks: the same bits as whole, in the memory of two blocks.
#include "runtime/infer/block_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "pager/base/units.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/infer/trace.h"
#include "tests/infer/small_network.h"
#include "tests/ops/compute_threads.h"

namespace weightpager::infer {
namespace {

using budget::BlockEnds;
using pipeline::Pipeline;

class BlockUseTest : public testing::Test, protected SmallNetwork {
 protected:
  void SetUp() override { make(); }

  Result<std::unique_ptr<Inference>> open(const std::string& path, const WindowRequest& window) {
    return Inference::open(network_, path, {.window = window, .threads = ops::compute_threads});
  }

  uint32_t layers() const { return static_cast<uint32_t>(network_.layers.size()); }

  /// Blocks of so many layers.
  BlockEnds blocks_of(uint32_t count) const {
    BlockEnds ends;
    for (uint32_t end = count; end < layers(); end += count) ends.push_back(end);
    ends.push_back(layers());
    return ends;
  }
};

uint64_t two_neighbours_bytes(const WindowUse& use) {
  uint64_t largest = 0;
  for (size_t i = 0; i + 1 < use.units.size(); ++i)
    largest = std::max(largest, use.units[i].length_bytes + use.units[i + 1].length_bytes);
  return largest;
}

TEST_F(BlockUseTest, EveryCutGivesTheBitsOfTheWholeNetwork) {
  for (const std::string& path : {packed_path_, weights_path_}) {
    auto whole = open(path, {.pipeline = Pipeline::preload});
    ASSERT_TRUE(whole) << whole.error().message;
    const std::vector<float> expected = output_of(**whole);
    ASSERT_FALSE(expected.empty());
    for (uint32_t count = 1; count < layers(); ++count) {
      for (const auto& [pipeline, assembly] :
           {std::pair(Pipeline::two_stage, Assembly::by_reference),
            {Pipeline::asynchronous, Assembly::by_reference},
            {Pipeline::two_stage, Assembly::by_copy}}) {
        const BlockRequest blocks = {.ends = blocks_of(count), .assembly = assembly};
        auto inference = open(path, {.pipeline = pipeline, .blocks = blocks});
        ASSERT_TRUE(inference) << inference.error().message;
        const WindowUse& use = (*inference)->window();
        ASSERT_EQ(use.blocks->ends, blocks.ends);
        for (int image = 0; image < 3; ++image) ASSERT_EQ(output_of(**inference), expected);
        const uint64_t copies =
            1 + (pipeline == Pipeline::asynchronous) + (assembly == Assembly::by_copy);
        ASSERT_EQ((*inference)->window_bytes(), copies * two_neighbours_bytes(use));
      }
    }
  }
}

TEST_F(BlockUseTest, EachPassReadsEachBlockOnce) {
  auto inference = open(packed_path_, {.blocks = BlockRequest{.ends = blocks_of(3)}});
  ASSERT_TRUE(inference) << inference.error().message;
  uint64_t blocks_bytes = 0;
  for (const pipeline::UnitBytes& it : (*inference)->window().units)
    blocks_bytes += it.needed_bytes;
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    output_of(**inference);
    // Nothing is read ahead for a next inference. The last read of a pass may end with the file.
    EXPECT_GE((*inference)->read_bytes(), pass * blocks_bytes);
    EXPECT_LE((*inference)->read_bytes(),
              pass * (blocks_bytes + (*inference)->window().units.size() * os_page_bytes));
  }
}

TEST_F(BlockUseTest, OneBlockStays) {
  auto inference = open(packed_path_, {.blocks = BlockRequest{.ends = {layers()}}});
  ASSERT_TRUE(inference) << inference.error().message;
  const std::vector<float> first = output_of(**inference);
  const uint64_t read_bytes = (*inference)->read_bytes();
  EXPECT_GT(read_bytes, 0u);
  EXPECT_EQ(output_of(**inference), first);
  EXPECT_EQ((*inference)->read_bytes(), read_bytes);
}

TEST_F(BlockUseTest, PlannedBlocksFitTheWindowAndFollowIt) {
  auto inference = open(packed_path_, {.blocks = BlockRequest{}});
  ASSERT_TRUE(inference) << inference.error().message;
  const uint64_t least_bytes = (*inference)->window_bytes();
  const std::vector<float> expected = output_of(**inference);
  uint64_t before_ns = UINT64_MAX;
  for (uint64_t window = least_bytes + 64 * KiB; window < 2 * MiB; window += 128 * KiB) {
    const Status set = (*inference)->set_window({.window_bytes = window, .blocks = BlockRequest{}});
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_LE((*inference)->window_bytes(), window);
    EXPECT_LE((*inference)->window().blocks->delay_ns, before_ns);
    before_ns = (*inference)->window().blocks->delay_ns;
    ASSERT_EQ(output_of(**inference), expected);
  }
  const Status refused =
      (*inference)
          ->set_window({.window_bytes = round_down(least_bytes / 2, os_page_bytes),
                        .blocks = BlockRequest{}});
  ASSERT_FALSE(refused);
}

TEST_F(BlockUseTest, WhatCannotRunIsRefused) {
  const auto refused = [&](const WindowRequest& window, const char* words) {
    const auto inference = open(packed_path_, window);
    ASSERT_FALSE(inference);
    EXPECT_NE(inference.error().message.find(words), std::string::npos)
        << inference.error().message;
  };
  refused({.pipeline = Pipeline::sequential, .blocks = BlockRequest{}}, "has no blocks");
  refused({.window_bytes = 64 * KiB, .blocks = BlockRequest{.ends = {layers()}}},
          "too small for these blocks");
}

// The weights are not there: the file is a hole with a header.
TEST_F(BlockUseTest, BlocksOfFourGibibytesAreRefused) {
  const std::string layer = "[convolutional]\nfilters=16384\nsize=1\nactivation=linear\n";
  const auto large = network::parse_network(
      "[net]\nheight=1\nwidth=1\nchannels=16384\n" + layer + layer + layer + layer + layer,
      "large.cfg");
  ASSERT_TRUE(large) << large.error().message;
  const std::string path = directory_.path("large.weights");
  std::filesystem::copy_file(weights_path_, path);
  std::filesystem::resize_file(path, 20);  // the header
  std::filesystem::resize_file(path, large->weights_file_bytes());
  const auto source = network::WeightSource::open(path, *large);
  ASSERT_TRUE(source) << source.error().message;
  const auto refused = use_window(*large, *source, {.blocks = BlockRequest{.ends = {5}}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("layers 0 to 4 would be a block of 5"), std::string::npos)
      << refused.error().message;
  const auto two = use_window(*large, *source, {.blocks = BlockRequest{.ends = {3, 5}}});
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_EQ(two->units.size(), 2u);
}

TEST_F(BlockUseTest, ADamagedByteIsAnErrorInEveryPass) {
  auto inference = open(packed_path_, {.blocks = BlockRequest{.ends = blocks_of(4)}});
  ASSERT_TRUE(inference) << inference.error().message;
  expect_damage_in_every_pass(**inference);
}

TEST_F(BlockUseTest, TheTraceNamesBlocksByTheirLayers) {
  auto inference = open(packed_path_, {.blocks = BlockRequest{.ends = blocks_of(5)}});
  ASSERT_TRUE(inference) << inference.error().message;
  output_of(**inference);
  const std::string trace = chrome_trace(
      network_, std::vector{TracedInference{"it", (*inference)->window(), (*inference)->times()}});
  EXPECT_NE(trace.find("layers 0 to 4"), std::string::npos) << trace;
  EXPECT_NE(trace.find("layers 5 to 9"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::infer
