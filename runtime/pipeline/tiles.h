// Layers cut into tiles by output channels, so that a window can be smaller than the largest layer.
//
// Problem. A layer that is one unit must fit the ring as a whole, and while it is read nothing
// else of it computes: six layers of 18 MiB make YOLOv4 wait at any window near 18 MiB.
//
// Idea. Output channels of a convolution or a connected layer do not depend on each other, and
// their weights lie one after the other. A tile is a run of channels; tiles of a layer are nearly
// equal, and begin at multiples of some channels: what vector units compute at once, and what sums
// are added up in the same order for.
//
// Cost of a tile: its share of the layer's read, copy and kernel, and what every further read and
// kernel cost for being one more. docs/explanation/inference.md says what that is on a real
// machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

struct TileableLayer {
  UnitCosts costs;
  /// 1 for what cannot be split.
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
  /// Larger layers are split into tiles of at most this; a whole number of `size_step_bytes`. Only
  /// `channel_step` channels that are larger already make a larger tile.
  uint64_t tile_bytes_max = 0;
  /// Sizes of tiles are rounded up to this.
  uint64_t size_step_bytes = 4096;
  /// What each tile of a layer but the first costs on top of its share.
  uint64_t read_ns_per_tile = 0;
  uint64_t kernel_ns_per_tile = 0;
};

/// In execution order; every layer has at least one tile.
std::vector<Tile> split_into_tiles(std::span<const TileableLayer> layers,
                                   const TileSettings& settings);

/// The same where a step is a page of a file: a tile that begins or ends within a page takes the
/// whole page along. Layers that would come in no smaller pieces for it stay whole.
std::vector<Tile> tiles_in_pages(std::span<const TileableLayer> layers,
                                 const TileSettings& settings);

/// The tiles' costs, for schedules and equations.
std::vector<UnitCosts> costs_of(std::span<const Tile> tiles);

}  // namespace weightpager::pipeline
