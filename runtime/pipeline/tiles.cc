// See tiles.h.
#include "runtime/pipeline/tiles.h"

#include <algorithm>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::pipeline {
namespace {

// ⌊value · part / whole⌋
uint64_t share(uint64_t value, uint64_t part, uint64_t whole) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * part / whole);
}

// The costs of all channels up to this one. A tile's share is a difference of two of these, so the
// shares of all tiles add up to the whole.
UnitCosts up_to_channel(const TileableLayer& layer, uint32_t channel) {
  const uint64_t all = layer.output_channels;
  return {.size_bytes = share(layer.costs.size_bytes, channel, all),
          .read_ns = share(layer.costs.read_ns, channel, all),
          .copy_ns = share(layer.costs.copy_ns, channel, all),
          .kernel_ns = share(layer.costs.kernel_ns, channel, all)};
}

// The most channels in a tile: as many steps as fit, at least one step.
uint32_t channels_max(const TileableLayer& layer, const TileSettings& settings) {
  if (layer.costs.size_bytes <= settings.tile_bytes_max) return layer.output_channels;
  const uint64_t fit =
      share(settings.tile_bytes_max, layer.output_channels, layer.costs.size_bytes);
  const uint64_t steps = std::max<uint64_t>(fit / layer.channel_step, 1);
  return static_cast<uint32_t>(
      std::min<uint64_t>(steps * layer.channel_step, layer.output_channels));
}

Tile make_tile(const TileableLayer& layer, uint32_t number, uint32_t first, uint32_t end,
               const TileSettings& settings) {
  const UnitCosts before = up_to_channel(layer, first);
  const UnitCosts until = up_to_channel(layer, end);
  const bool is_first = first == 0;
  return {
      .layer = number,
      .first_channel = first,
      .end_channel = end,
      .costs = {
          .size_bytes = round_up(until.size_bytes - before.size_bytes, settings.size_step_bytes),
          .read_ns = until.read_ns - before.read_ns + (is_first ? 0 : settings.read_ns_per_tile),
          .copy_ns = until.copy_ns - before.copy_ns,
          .kernel_ns =
              until.kernel_ns - before.kernel_ns + (is_first ? 0 : settings.kernel_ns_per_tile),
      }};
}

}  // namespace

std::vector<Tile> split_into_tiles(std::span<const TileableLayer> layers,
                                   const TileSettings& settings) {
  WP_ASSERT(settings.tile_bytes_max % settings.size_step_bytes == 0);
  std::vector<Tile> tiles;
  for (uint32_t number = 0; number < layers.size(); ++number) {
    const TileableLayer& layer = layers[number];
    WP_ASSERT(layer.output_channels > 0);
    const uint32_t channels = layer.output_channels;
    const uint32_t most = channels_max(layer, settings);
    const uint64_t count = (channels + most - 1) / most;
    // Each tile ends where an equal share of the channels ends, rounded up to the channel step.
    uint32_t first = 0;
    for (uint64_t tile = 1; tile <= count; ++tile) {
      const uint64_t even = round_up(share(channels, tile, count), layer.channel_step);
      const auto end = static_cast<uint32_t>(std::min<uint64_t>(even, channels));
      tiles.push_back(make_tile(layer, number, first, end, settings));
      first = end;
    }
  }
  return tiles;
}

std::vector<Tile> tiles_in_pages(std::span<const TileableLayer> layers,
                                 const TileSettings& settings) {
  std::vector<Tile> all;
  for (uint32_t number = 0; number < layers.size(); ++number) {
    std::vector<Tile> tiles = split_into_tiles(layers.subspan(number, 1), settings);
    uint64_t largest_bytes = 0;
    for (Tile& it : tiles) {
      it.layer = number;
      if (tiles.size() == 1) continue;
      it.costs.size_bytes += settings.size_step_bytes;
      largest_bytes = std::max(largest_bytes, it.costs.size_bytes);
    }
    if (largest_bytes > layers[number].costs.size_bytes) {
      const TileableLayer& whole = layers[number];
      tiles = {{number, 0, whole.output_channels, whole.costs}};
    }
    all.insert(all.end(), tiles.begin(), tiles.end());
  }
  return all;
}

std::vector<UnitCosts> costs_of(std::span<const Tile> tiles) {
  std::vector<UnitCosts> costs;
  for (const Tile& tile : tiles) costs.push_back(tile.costs);
  return costs;
}

}  // namespace weightpager::pipeline
