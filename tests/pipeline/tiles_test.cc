// Tiles cover their layers, are nearly equal, and cost what the layers cost.
#include "runtime/pipeline/tiles.h"

#include <gtest/gtest.h>

#include <random>

#include "pager/base/units.h"

namespace weightpager::pipeline {
namespace {

TEST(Tiles, SmallLayersStayWhole) {
  const TileableLayer layers[] = {
      {.costs = {.size_bytes = 8192, .read_ns = 10, .copy_ns = 20, .kernel_ns = 30},
       .output_channels = 64},
      {.costs = {.kernel_ns = 5}},
      {.costs = {.size_bytes = 100, .read_ns = 1, .copy_ns = 2, .kernel_ns = 3},
       .output_channels = 7}};
  const std::vector<Tile> tiles = split_into_tiles(
      layers, {.tile_bytes_max = 8192, .read_ns_per_tile = 1000, .kernel_ns_per_tile = 1000});
  ASSERT_EQ(tiles.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tiles[i].layer, i);
    EXPECT_EQ(tiles[i].first_channel, 0u);
    EXPECT_EQ(tiles[i].end_channel, layers[i].output_channels);
    EXPECT_EQ(tiles[i].costs.size_bytes, round_up(layers[i].costs.size_bytes, 4096));
    EXPECT_EQ(tiles[i].costs.read_ns, layers[i].costs.read_ns);
    EXPECT_EQ(tiles[i].costs.copy_ns, layers[i].costs.copy_ns);
    EXPECT_EQ(tiles[i].costs.kernel_ns, layers[i].costs.kernel_ns);
  }
}

// 64 channels of 1 KiB in tiles of 24 KiB: 24 channels would fit, 16 are a whole number of vectors.
TEST(Tiles, BeginAtMultiplesOf16Channels) {
  const TileableLayer layer{
      .costs = {.size_bytes = 64 * KiB, .read_ns = 400, .copy_ns = 40, .kernel_ns = 4000},
      .output_channels = 64};
  const std::vector<Tile> tiles = split_into_tiles(
      {&layer, 1}, {.tile_bytes_max = 24 * KiB, .read_ns_per_tile = 7, .kernel_ns_per_tile = 9});
  ASSERT_EQ(tiles.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(tiles[i].first_channel, 16 * i);
    EXPECT_EQ(tiles[i].end_channel, 16 * (i + 1));
    EXPECT_EQ(tiles[i].costs.size_bytes, 16 * KiB);
    EXPECT_EQ(tiles[i].costs.read_ns, i == 0 ? 100u : 107u);
    EXPECT_EQ(tiles[i].costs.copy_ns, 10u);
    EXPECT_EQ(tiles[i].costs.kernel_ns, i == 0 ? 1000u : 1009u);
  }
}

// As a connected layer of AlexNet: 9216 inputs, so 16 channels are 576 KiB.
TEST(Tiles, AreNeverSmallerThanAStep) {
  TileableLayer layer{.costs = {.size_bytes = 4096ull * 36 * KiB}, .output_channels = 4096};
  const std::vector<Tile> tiles = split_into_tiles({&layer, 1}, {.tile_bytes_max = 256 * KiB});
  EXPECT_EQ(tiles.size(), 256u);
  for (const Tile& tile : tiles) EXPECT_EQ(tile.costs.size_bytes, 576 * KiB);
  layer.channel_step = 4;
  EXPECT_EQ(split_into_tiles({&layer, 1}, {.tile_bytes_max = 256 * KiB}).size(), 1024u);
}

TEST(Tiles, CoverTheirLayersNearlyEqually) {
  std::mt19937_64 random(14);
  const auto up_to = [&](uint64_t largest) {
    return std::uniform_int_distribution<uint64_t>(0, largest)(random);
  };
  int split = 0;
  for (int round = 0; round < 5'000; ++round) {
    TileableLayer layer{.costs = {.size_bytes = 0,
                                  .read_ns = up_to(1'000'000'000),
                                  .copy_ns = up_to(1'000'000),
                                  .kernel_ns = up_to(1'000'000'000)},
                        .output_channels = static_cast<uint32_t>(1 + up_to(2000)),
                        .channel_step = round % 2 == 0 ? 16u : 64u};
    const uint64_t channel_bytes = 4 * (1 + up_to(9000));
    layer.costs.size_bytes = layer.output_channels * channel_bytes;
    const TileSettings settings{.tile_bytes_max = 4096 * (1 + up_to(1000))};
    const std::vector<Tile> tiles = split_into_tiles({&layer, 1}, settings);
    split += tiles.size() > 1;
    UnitCosts sum;
    uint32_t channel = 0, most = 0, least = UINT32_MAX;
    for (const Tile& tile : tiles) {
      ASSERT_EQ(tile.first_channel, channel);
      ASSERT_LT(tile.first_channel, tile.end_channel);
      const uint32_t channels = tile.end_channel - tile.first_channel;
      channel = tile.end_channel;
      most = std::max(most, channels);
      least = std::min(least, channels);
      ASSERT_EQ(tile.costs.size_bytes, round_up(channels * channel_bytes, 4096));
      ASSERT_TRUE(tile.costs.size_bytes <= settings.tile_bytes_max ||
                  channels <= layer.channel_step);
      ASSERT_EQ(tile.first_channel % layer.channel_step, 0u);
      sum.read_ns += tile.costs.read_ns;
      sum.copy_ns += tile.costs.copy_ns;
      sum.kernel_ns += tile.costs.kernel_ns;
    }
    ASSERT_EQ(channel, layer.output_channels);
    ASSERT_EQ(sum.read_ns, layer.costs.read_ns);
    ASSERT_EQ(sum.copy_ns, layer.costs.copy_ns);
    ASSERT_EQ(sum.kernel_ns, layer.costs.kernel_ns);
    // Equal but for the grid; at the end of the layer that cuts off up to a step.
    ASSERT_LT(most - least, 2 * layer.channel_step);
  }
  EXPECT_GT(split, 1'000);
}

}  // namespace
}  // namespace weightpager::pipeline
