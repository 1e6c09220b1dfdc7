// See arena_overlay.h. A time is a count here: the number of units that have been computed.
#include "runtime/pipeline/arena_overlay.h"

#include <algorithm>
#include <deque>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::pipeline {
namespace {

// A unit is computed once all of it is read. Tiles are joined only if earlier units give the
// kernels enough to compute while the joined unit is read.
constexpr uint64_t ahead_per_unit_min = 2;

/// A free part of the arena, and how many units must be computed before it is free.
struct FreeRange {
  uint64_t offset_bytes = 0;
  uint32_t must_leave = 0;
};

class Arena {
 public:
  Arena(std::span<const ArenaUse> uses, uint64_t arena_bytes)
      : uses_(uses.begin(), uses.end()), granules_(arena_bytes / overlay_granule_bytes) {
    std::sort(uses_.begin(), uses_.end(), [](const ArenaUse& left, const ArenaUse& right) {
      return left.first_layer < right.first_layer;
    });
  }

  // Called for each layer, in order. `units`: how many units earlier layers have.
  void begin_layer(uint32_t layer, uint32_t units) {
    for (size_t i = 0; i < live_.size();) {
      if (live_[i].last_layer >= layer) {
        ++i;
        continue;
      }
      change(live_[i], -1, units);
      live_[i] = live_.back();
      live_.pop_back();
    }
    for (; next_use_ < uses_.size() && uses_[next_use_].first_layer <= layer; ++next_use_) {
      change(uses_[next_use_], +1, 0);
      live_.push_back(uses_[next_use_]);
    }
  }

  // The range of this size that is free after the fewest units. Of equal ranges, the first one.
  std::optional<FreeRange> earliest_free_range(uint64_t size_bytes) {
    const uint64_t width = (size_bytes + overlay_granule_bytes - 1) / overlay_granule_bytes;
    std::optional<FreeRange> best;
    // Granules of the free stretch up to `end`, each freed later than all granules behind it.
    latest_.clear();
    uint64_t begin = 0;
    for (uint64_t end = 0; end < granules_.size(); ++end) {
      if (granules_[end].users > 0) {
        latest_.clear();
        begin = end + 1;
        continue;
      }
      const auto must_leave = [&](uint64_t granule) { return granules_[granule].must_leave; };
      while (!latest_.empty() && must_leave(latest_.back()) <= must_leave(end)) latest_.pop_back();
      latest_.push_back(end);
      if (end + 1 - begin < width) continue;
      begin = end + 1 - width;
      if (latest_.front() < begin) latest_.pop_front();
      if (!best || must_leave(latest_.front()) < best->must_leave) {
        best = {begin * overlay_granule_bytes, must_leave(latest_.front())};
      }
    }
    return best;
  }

  // The range is free again when `must_leave` units have been computed.
  void take(const FreeRange& range, uint64_t size_bytes, uint32_t must_leave) {
    for_granules(range.offset_bytes, size_bytes, [&](Granule& it) { it.must_leave = must_leave; });
  }

 private:
  struct Granule {
    uint32_t users = 0;       // tensors of layers that lie here now
    uint32_t must_leave = 0;  // units to compute before earlier users are done with it
  };

  void change(const ArenaUse& use, int by, uint32_t must_leave) {
    for_granules(use.offset_bytes, use.size_bytes, [&](Granule& it) {
      it.users += by;
      it.must_leave = std::max(it.must_leave, must_leave);
    });
  }

  template <typename Change>
  void for_granules(uint64_t offset_bytes, uint64_t size_bytes, Change each) {
    const uint64_t end_bytes = round_up(offset_bytes + size_bytes, overlay_granule_bytes);
    const uint64_t end = std::min(end_bytes / overlay_granule_bytes, granules_.size());
    for (uint64_t i = offset_bytes / overlay_granule_bytes; i < end; ++i) each(granules_[i]);
  }

  std::vector<ArenaUse> uses_;
  size_t next_use_ = 0;
  std::vector<ArenaUse> live_;
  std::vector<Granule> granules_;
  std::deque<uint64_t> latest_;
};

class Ring {
 public:
  explicit Ring(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  uint32_t must_leave_for(uint64_t size_bytes) const {
    uint64_t inside_bytes = inside_bytes_;
    uint32_t must_leave = 0;
    for (auto it = units_.begin(); inside_bytes + size_bytes > capacity_bytes_; ++it) {
      WP_ASSERT(it != units_.end());
      inside_bytes -= it->size_bytes;
      must_leave = it->number + 1;
    }
    return must_leave;
  }

  void take(uint32_t number, uint64_t size_bytes) {
    for (; inside_bytes_ + size_bytes > capacity_bytes_; units_.pop_front()) {
      inside_bytes_ -= units_.front().size_bytes;
    }
    units_.push_back({number, size_bytes});
    inside_bytes_ += size_bytes;
  }

 private:
  struct Inside {
    uint32_t number;
    uint64_t size_bytes;
  };
  uint64_t capacity_bytes_;
  uint64_t inside_bytes_ = 0;
  std::deque<Inside> units_;
};

class Placer {
 public:
  Placer(std::span<const UnitToPlace> units, uint64_t ring_bytes, std::span<const ArenaUse> uses,
         uint64_t arena_bytes)
      : units_(units), ring_(ring_bytes), arena_(uses, arena_bytes) {}

  std::vector<PlacedUnit> run() {
    for (uint32_t first = 0; first < units_.size();) {
      const bool is_first_of_layer = first == 0 || units_[first].layer != units_[first - 1].layer;
      if (is_first_of_layer) arena_.begin_layer(units_[first].layer, number());
      placed_.push_back(place(first));
      first = placed_.back().end;
    }
    return std::move(placed_);
  }

 private:
  uint32_t number() const { return static_cast<uint32_t>(placed_.size()); }

  PlacedUnit place(uint32_t first) {
    const UnitToPlace& unit = units_[first];
    if (unit.is_pinned || unit.size_bytes == 0) return {first, first + 1, {}};
    const uint32_t in_ring = ring_.must_leave_for(unit.size_bytes);
    std::optional<FreeRange> alone;
    if (in_ring > must_leave_) alone = free_range_for(unit.size_bytes);
    const uint32_t earliest = alone ? std::min(in_ring, alone->must_leave) : in_ring;
    must_leave_ = std::max(must_leave_, earliest);

    for (uint32_t end = end_of_tiles(first); end > first + 1; --end) {
      const uint64_t ahead_bytes = ahead_per_unit_min * bytes(first, end);
      if (bytes_ahead(must_leave_) < ahead_bytes) continue;
      const std::optional<FreeRange> together = free_range_for(bytes(first, end));
      if (!together || bytes_ahead(together->must_leave) < ahead_bytes) continue;
      must_leave_ = std::max(must_leave_, together->must_leave);
      return overlaid(first, end, *together);
    }
    if (in_ring > must_leave_) return overlaid(first, first + 1, *alone);
    ring_.take(number(), unit.size_bytes);
    return {first, first + 1, {}};
  }

  // An overlaid unit is read after a kernel of its own inference, so one unit must be computed.
  std::optional<FreeRange> free_range_for(uint64_t size_bytes) {
    if (number() == 0) return std::nullopt;
    std::optional<FreeRange> range = arena_.earliest_free_range(size_bytes);
    if (range) range->must_leave = std::max(range->must_leave, 1u);
    return range;
  }

  PlacedUnit overlaid(uint32_t first, uint32_t end, const FreeRange& range) {
    arena_.take(range, bytes(first, end), number() + 1);
    return {first, end, Overlay{range.offset_bytes, range.must_leave - 1}};
  }

  uint64_t bytes(uint32_t first, uint32_t end) const {
    uint64_t sum_bytes = 0;
    for (uint32_t unit = first; unit < end; ++unit) sum_bytes += units_[unit].size_bytes;
    return sum_bytes;
  }

  // The bytes of the placed units that are not computed yet when `computed` units are.
  uint64_t bytes_ahead(uint32_t computed) const {
    return computed == number() ? 0 : bytes(placed_[computed].first, placed_.back().end);
  }

  // The end of the units from `first` on that are of the same layer and not pinned.
  uint32_t end_of_tiles(uint32_t first) const {
    uint32_t end = first + 1;
    while (end < units_.size() && units_[end].layer == units_[first].layer &&
           !units_[end].is_pinned) {
      ++end;
    }
    return end;
  }

  std::span<const UnitToPlace> units_;
  Ring ring_;
  Arena arena_;
  std::vector<PlacedUnit> placed_;
  // Units are read in order, so no later unit is read before this many units are computed.
  uint32_t must_leave_ = 0;
};

}  // namespace

std::vector<PlacedUnit> place_units(std::span<const UnitToPlace> units, uint64_t ring_bytes,
                                    std::span<const ArenaUse> uses, uint64_t arena_bytes) {
  return Placer(units, ring_bytes, uses, arena_bytes).run();
}

}  // namespace weightpager::pipeline
