// Layers cut into tiles by output channels, so that a window can be smaller than the largest layer.
//
// Problem. A layer that is one unit must fit the ring as a whole, and while it is read nothing
// else of it computes: six layers of 18 MiB make YOLOv4 wait at any window near 18 MiB.
//
// Idea. Output channels of a convolution or a connected layer do not depend on each other, and
// their weights lie one after the other. A tile is a run of channels. Tiles of a layer are nearly
// equal. They begin at multiples of a step: as many channels as vector units compute at once, and
// as keep the order in which sums are added up.
//
// Cost of a tile: its share of the layer's read, copy and kernel, and the fixed cost of one more
// read and one more kernel. docs/explanation/inference.md gives that cost on a real machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

struct TileableLayer {
  UnitCosts costs;
  /// 1 for a layer that cannot be split.
  uint32_t output_channels = 1;
  /// Tiles begin at multiples of this.
  uint32_t channel_step = 16;
};

struct Tile {
  uint32_t layer = 0;
  uint32_t first_channel = 0;
  uint32_t end_channel = 0;
  UnitCosts costs;
};

struct TileSettings {
  /// Larger layers are split into tiles of at most this size. A multiple of `size_step_bytes`. A
  /// tile is larger only if `channel_step` channels are larger already.
  uint64_t tile_bytes_max = 0;
  /// Sizes of tiles are rounded up to a multiple of this.
  uint64_t size_step_bytes = 4096;
  /// Each tile of a layer except for the first costs this much on top of its share.
  uint64_t read_ns_per_tile = 0;
  uint64_t kernel_ns_per_tile = 0;
};

/// In execution order; every layer has at least one tile.
std::vector<Tile> split_into_tiles(std::span<const TileableLayer> layers,
                                   const TileSettings& settings);

/// The same if `size_step_bytes` is a page of a file: a tile that begins or ends within a page
/// takes the whole page along, so each tile is one page larger. A layer stays whole if its largest
/// tile would be larger than the layer.
std::vector<Tile> tiles_in_pages(std::span<const TileableLayer> layers,
                                 const TileSettings& settings);

/// The tiles' costs, for schedules and equations.
std::vector<UnitCosts> costs_of(std::span<const Tile> tiles);

}  // namespace weightpager::pipeline
