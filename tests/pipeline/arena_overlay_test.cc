// Which units lie where in the arena: checked on memory that remembers the owner of each byte, and
// on examples made by hand.
#include "runtime/pipeline/arena_overlay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/pipeline/random_network.h"

namespace weightpager::pipeline {
namespace {

constexpr uint64_t granule = overlay_granule_bytes;

/// Layers with uses of an arena that never overlap in both bytes and time, and units of them.
struct RandomArena {
  explicit RandomArena(RandomNetworks& random) {
    const auto layers = static_cast<uint32_t>(2 + random.up_to(10));
    for (uint32_t layer = 0; layer < layers; ++layer) {
      for (uint64_t tiles = 1 + random.up_to(3); tiles > 0; --tiles) {
        const uint64_t size_bytes = random.up_to(3) == 0 ? 0 : (1 + random.up_to(7)) * granule / 4;
        units.push_back({layer, size_bytes, random.up_to(7) == 0});
      }
    }
    arena_bytes = (4 + random.up_to(16)) * granule;
    for (uint64_t tries = random.up_to(20); tries > 0; --tries) {
      const auto first = static_cast<uint32_t>(random.up_to(layers - 1));
      const auto last = static_cast<uint32_t>(first + random.up_to(layers - first));
      const uint64_t offset_bytes = random.up_to(arena_bytes / 64 - 1) * 64;
      const uint64_t size_bytes = 64 * (1 + random.up_to((arena_bytes - offset_bytes) / 64 - 1));
      const ArenaUse use = {offset_bytes, size_bytes, first, last};
      const bool is_free = std::none_of(uses.begin(), uses.end(), [&](const ArenaUse& other) {
        return meets(other.offset_bytes, other.size_bytes, offset_bytes, size_bytes) &&
               other.first_layer <= last && first <= other.last_layer;
      });
      if (is_free) uses.push_back(use);
    }
    for (const UnitToPlace& it : units) {
      if (!it.is_pinned) ring_bytes = std::max(ring_bytes, it.size_bytes);
    }
    ring_bytes += random.up_to(4) * granule;
  }

  static bool meets(uint64_t first_offset, uint64_t first_size, uint64_t second_offset,
                    uint64_t second_size) {
    return first_offset < second_offset + second_size && second_offset < first_offset + first_size;
  }

  std::vector<PlacedUnit> place() const {
    return place_units(units, ring_bytes, uses, arena_bytes);
  }

  uint64_t bytes(const PlacedUnit& placed) const {
    uint64_t sum_bytes = 0;
    for (uint32_t unit = placed.first; unit < placed.end; ++unit) {
      sum_bytes += units[unit].size_bytes;
    }
    return sum_bytes;
  }

  uint64_t bytes_between(const std::vector<PlacedUnit>& placed, size_t first, size_t end) const {
    uint64_t sum_bytes = 0;
    for (size_t number = first; number < end; ++number) sum_bytes += bytes(placed[number]);
    return sum_bytes;
  }

  std::vector<UnitToPlace> units;
  std::vector<ArenaUse> uses;
  uint64_t arena_bytes = 0;
  uint64_t ring_bytes = 0;
};

/// What lies there from when it may be read until its kernel has ended.
void expect_alone(const RandomArena& arena, const std::vector<PlacedUnit>& placed, size_t number) {
  const PlacedUnit& it = placed[number];
  const uint32_t after = it.overlay->after_unit;
  ASSERT_LT(after, number);
  ASSERT_LE(it.overlay->offset_bytes + arena.bytes(it), arena.arena_bytes);
  const uint32_t layer = arena.units[it.first].layer;
  const PlacedUnit& awaited = placed[after];
  // While other units of that layer are still to come, the layer is not over.
  const uint32_t over = arena.units[awaited.first].layer;
  const bool is_over = awaited.end == arena.units.size() || arena.units[awaited.end].layer != over;
  const uint32_t from_layer = is_over ? over + 1 : over;
  for (const ArenaUse& use : arena.uses) {
    if (use.last_layer < from_layer || use.first_layer > layer) continue;
    EXPECT_FALSE(RandomArena::meets(use.offset_bytes, use.size_bytes, it.overlay->offset_bytes,
                                    arena.bytes(it)))
        << "unit " << number << " lies in bytes that layers need from " << use.first_layer << " to "
        << use.last_layer;
  }
  for (size_t other = after + 1; other < number; ++other) {
    if (!placed[other].overlay) continue;
    EXPECT_FALSE(RandomArena::meets(placed[other].overlay->offset_bytes, arena.bytes(placed[other]),
                                    it.overlay->offset_bytes, arena.bytes(it)))
        << "units " << other << " and " << number;
  }
}

TEST(Overlay, NobodyElseNeedsTheBytesMeanwhile) {
  RandomNetworks random(11);
  uint64_t overlaid_units = 0, joined = 0, taken_over = 0;
  for (int round = 0; round < 20'000; ++round) {
    const RandomArena arena(random);
    const std::vector<PlacedUnit> placed = arena.place();
    uint32_t next = 0;
    for (size_t number = 0; number < placed.size(); ++number) {
      const PlacedUnit& it = placed[number];
      ASSERT_EQ(it.first, next) << "all units, in order";
      ASSERT_LT(it.first, it.end);
      next = it.end;
      joined += it.end > it.first + 1;
      if (it.end > it.first + 1) {
        ASSERT_TRUE(it.overlay);
        ASSERT_GE(arena.bytes_between(placed, it.overlay->after_unit + 1, number),
                  2 * arena.bytes(it))
            << "kernels have too little to do while it is read";
      }
      for (uint32_t unit = it.first; unit < it.end; ++unit) {
        ASSERT_EQ(arena.units[unit].layer, arena.units[it.first].layer);
        if (it.overlay) {
          ASSERT_FALSE(arena.units[unit].is_pinned);
        }
      }
      if (!it.overlay) continue;
      ++overlaid_units;
      taken_over += it.overlay->after_unit > 0;
      expect_alone(arena, placed, number);
    }
    ASSERT_EQ(next, arena.units.size());
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(overlaid_units, 20'000u) << "too tame a test";
  EXPECT_GT(joined, 1'000u) << "too tame a test";
  EXPECT_GT(taken_over, 10'000u) << "too tame a test";
}

// Whatever reads and kernels take: nothing is read later than with the ring alone. Where tiles are
// joined a kernel may wait for more bytes, so here layers are whole.
TEST(Overlay, NothingIsLaterThanInTheRingAlone) {
  RandomNetworks random(12);
  int earlier = 0;
  for (int round = 0; round < 5'000; ++round) {
    RandomArena arena(random);
    arena.units.erase(std::unique(arena.units.begin(), arena.units.end(),
                                  [](const UnitToPlace& left, const UnitToPlace& right) {
                                    return left.layer == right.layer;
                                  }),
                      arena.units.end());
    const std::vector<PlacedUnit> placed = arena.place();
    std::vector<UnitCosts> alone, overlay;
    for (size_t i = 0; i < placed.size(); ++i) {
      alone.push_back({.size_bytes = arena.units[i].is_pinned ? 0 : arena.units[i].size_bytes,
                       .read_ns = random.up_to(100),
                       .kernel_ns = random.up_to(100)});
      overlay.push_back(alone.back());
      overlay.back().overlay = placed[i].overlay;
    }
    const Rings rings{.host_bytes = arena.ring_bytes};
    const uint64_t alone_ns = delay_ns(Pipeline::two_stage, alone, rings);
    const uint64_t overlay_ns = delay_ns(Pipeline::two_stage, overlay, rings);
    ASSERT_LE(overlay_ns, alone_ns) << "round " << round;
    earlier += overlay_ns < alone_ns;
  }
  EXPECT_GT(earlier, 500) << "too tame a test";
}

// Three layers: the first's activations fill the arena, the second's a quarter, the third's
// nothing.
TEST(Overlay, ALayerWhoseTilesHaveRoomTogetherIsOneUnit) {
  const std::vector<ArenaUse> uses = {{0, 16 * granule, 0, 0}, {0, 4 * granule, 1, 1}};
  const std::vector<UnitToPlace> units = {{0, 2 * granule, false},
                                          {1, 8 * granule, false},
                                          {1, 8 * granule, false},
                                          {2, 2 * granule, false},
                                          {2, 2 * granule, false}};
  const std::vector<PlacedUnit> placed = place_units(units, 8 * granule, uses, 16 * granule);
  ASSERT_EQ(placed.size(), 4u);
  EXPECT_FALSE(placed[0].overlay) << "no kernel is before it";
  // After the first kernel the ring and twelve granules are free: the unit may be
  // read into the arena no later than into the ring.
  EXPECT_FALSE(placed[1].overlay);
  ASSERT_TRUE(placed[2].overlay);
  EXPECT_EQ(*placed[2].overlay, (Overlay{4 * granule, 0}));
  EXPECT_EQ(placed[3].first, 3u);
  EXPECT_EQ(placed[3].end, 5u) << "its tiles are one";
  ASSERT_TRUE(placed[3].overlay);
  EXPECT_EQ(*placed[3].overlay, (Overlay{12 * granule, 0}));
}

// Only overlaid units use the arena: six layers fill it, and the seventh's tiles come.
TEST(Overlay, TilesWaitForRoomTogetherAsLongAsEnoughIsAhead) {
  std::vector<UnitToPlace> units;
  for (uint32_t layer = 0; layer < 7; ++layer) units.push_back({layer, 2 * granule, false});
  for (int tile = 0; tile < 3; ++tile) units.push_back({7, 2 * granule, false});
  const std::vector<PlacedUnit> placed = place_units(units, 2 * granule, {}, 12 * granule);
  ASSERT_EQ(placed.size(), 9u);
  EXPECT_FALSE(placed[1].overlay) << "the ring is free when the first layer is computed";
  EXPECT_EQ(placed[2].overlay, (Overlay{0, 0}));
  EXPECT_EQ(placed[6].overlay, (Overlay{8 * granule, 0}));
  // All three, or two of them, would wait until less than twice their bytes are ahead.
  EXPECT_EQ(placed[7].end, 8u);
  EXPECT_EQ(placed[7].overlay, (Overlay{10 * granule, 0}));
  // Alone the next one could come after layer 2, with the last one after layer 3: four units of two
  // granules, for four granules, are ahead then.
  EXPECT_EQ(placed[8].end, 10u);
  EXPECT_EQ(placed[8].overlay, (Overlay{0, 3}));
}

}  // namespace
}  // namespace weightpager::pipeline
