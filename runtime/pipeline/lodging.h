// Weights in memory that activations do not need at that time.
//
// Problem. A network's first layers have large activations and few weights, its last ones few
// activations and most of the weights. Memory for activations is there for the former: when the
// latter come, it lies idle, while they wait for a disk that has nothing to do before, because the
// ring is full.
//
// Idea. A unit may lodge there: it is read once whoever had these bytes before is done with them,
// and has left when somebody else wants them. When each byte is in use is known beforehand, as far
// as layers are concerned (memory/activations.h), so lodgings are chosen once. In the order of
// units, each takes what can be had after the earliest kernel: the ring, if that keeps the disk no
// longer than the units before it have, or else a place in the arena. Tiles are for the ring: those
// of a layer become one unit again where there is room for them together, even if later, as long as
// there are twice as many bytes then that were read and are not computed. That saves what each tile
// costs a kernel, which packs the unfolded picture again: of YOLOv3 in 8.2 MiB 116 pieces are left
// of 175.
//
// So the window is larger where it matters, and the memory is the same. Nobody else does this, to
// our knowledge; Pisarchyk & Lee share the memory of activations among activations only.
//
// Pure: says what may lie where, and when. Cost: once for a window, and for each unit a pass over
// the arena's granules; for as many tiles as it may be joined with, one more each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/schedule.h"

namespace weightpager::pipeline {

/// Lodgings are whole numbers of these, a multiple of what direct reads want.
inline constexpr uint64_t lodging_granule_bytes = 16u << 10;

/// Bytes of the arena that layers use: not before the first, not after the last, and who reads what
/// they hold in the end comes before the next inference.
struct ArenaUse {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint32_t first_layer = 0;
  /// May be one that does not exist: until the end.
  uint32_t last_layer = 0;
};

struct UnitToPlace {
  /// A layer's units follow each other, each layer has one at least.
  uint32_t layer = 0;
  /// As in WorkUnit.
  uint64_t size_bytes = 0;
  bool is_pinned = false;
};

/// Units from `first` to before `end`, of one layer, that are one from now on.
struct PlacedUnit {
  uint32_t first = 0;
  uint32_t end = 0;
  /// Its `after_unit` counts these units. Without: in the ring, or wherever it was.
  std::optional<Lodging> lodging;
};

/// All units, in order. `ring_bytes` as in `two_stage`, at least the largest unit that is not
/// pinned.
std::vector<PlacedUnit> place_units(std::span<const UnitToPlace> units, uint64_t ring_bytes,
                                    std::span<const ArenaUse> uses, uint64_t arena_bytes);

}  // namespace weightpager::pipeline
