// The arena overlay: weights lie in the part of the activation arena that is free at that time.
//
// Problem. A network's first layers have large activations and few weights; its last layers have
// small activations and most of the weights. The arena is sized for the first layers. While the
// last layers compute, most of the arena is free, but their weights wait for the disk: the disk
// could have read them earlier, but the ring was full.
//
// Idea. A unit may be overlaid: it is read into the arena after the last layer that needed those
// bytes, and it is computed before the next layer that needs them. It is known beforehand when
// layers use each byte (memory/activations.h), so overlays are chosen once. The units are placed in
// order. A unit goes into the ring if the ring delays its read no more than earlier units already
// do, otherwise into the arena. Layers are cut into tiles only because the ring is small. Where the
// arena has room for several tiles of a layer together, they become one unit again. That room may
// be free later than room for one tile, as long as at that time twice as many bytes are read and
// not yet computed. A joined tile saves the fixed cost of a kernel, because each kernel packs the
// unfolded picture again. YOLOv3 in 8.2 MiB has 116 pieces instead of 175.
//
// So the window is larger where it matters, and the memory is the same. To our knowledge no other
// program does this; Pisarchyk & Lee share the memory of activations among activations only.
//
// This code is pure: it decides where each unit lies and when its bytes are free. It runs once for
// a window. Cost: one pass over the arena's granules for each unit, and one more for each tile that
// may be joined.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

/// Overlaid units take whole granules. A granule is a multiple of what direct reads require.
inline constexpr uint64_t overlay_granule_bytes = 16u << 10;

/// Bytes of the arena that layers use, from the first of these layers to the last. Outputs are read
/// before the next inference begins.
struct ArenaUse {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t first_layer = 0;
  /// May be past the network's last layer: then the bytes are in use until the inference ends.
  uint32_t last_layer = 0;
};

struct UnitToPlace {
  /// The units of a layer follow each other. Each layer has at least one unit.
  uint32_t layer = 0;
  /// As in WorkUnit.
  uint64_t size_bytes = 0;
  bool is_pinned = false;
};

/// The units from `first` to before `end`, all of one layer, are one unit from now on.
struct PlacedUnit {
  uint32_t first = 0;
  uint32_t end = 0;
  /// `after_unit` is a number of placed units, not of units to place. Nothing: the unit is in the
  /// ring or pinned.
  std::optional<Overlay> overlay;
};

/// Places all units, in order. `ring_bytes` is the size of the ring of `two_stage`: at least the
/// largest unit that is not pinned.
std::vector<PlacedUnit> place_units(std::span<const UnitToPlace> units, uint64_t ring_bytes,
                                    std::span<const ArenaUse> uses, uint64_t arena_bytes);

}  // namespace weightpager::pipeline
