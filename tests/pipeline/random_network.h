// Small networks for tests, from a seed: many layers without weights, many events at the same time.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/pipeline/schedule.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::pipeline {

inline constexpr Pipeline all_pipelines[] = {Pipeline::preload, Pipeline::sequential,
                                             Pipeline::synchronous, Pipeline::asynchronous,
                                             Pipeline::two_stage};

class RandomNetworks {
 public:
  explicit RandomNetworks(uint64_t seed) : random_(seed) {}

  uint64_t up_to(uint64_t largest) {
    return std::uniform_int_distribution<uint64_t>(0, largest)(random_);
  }

  /// 1 to 14 units. Three in ten have no weights; times are so short that they often coincide.
  std::vector<UnitCosts> costs() {
    std::vector<UnitCosts> costs(1 + up_to(13));
    const uint64_t longest_ns = up_to(1) == 0 ? 4 : 1000;
    for (UnitCosts& unit : costs) {
      unit.kernel_ns = up_to(longest_ns);
      if (up_to(9) < 3) continue;
      unit = {.size_bytes = 1 + up_to(7),
              .read_ns = up_to(longest_ns),
              .copy_ns = up_to(longest_ns),
              .kernel_ns = unit.kernel_ns};
    }
    return costs;
  }

  /// Overlays half of the units that have weights, never the first one: each beside the others, or
  /// in the bytes of an earlier one that is finished by then.
  template <typename Unit>
  void overlay_some(std::vector<Unit>& units) {
    uint64_t end_bytes = 0;
    for (uint32_t unit = 1; unit < units.size(); ++unit) {
      if (units[unit].size_bytes == 0 || up_to(1) == 0) continue;
      const auto before = static_cast<uint32_t>(up_to(unit - 1));
      Overlay overlay{end_bytes, before};
      const auto& other = units[before];
      const bool takes_over = other.overlay && other.size_bytes >= units[unit].size_bytes;
      if (takes_over && is_free_after(units, before, unit)) {
        overlay.offset_bytes = other.overlay->offset_bytes;
      } else {
        end_bytes += units[unit].size_bytes;
      }
      units[unit].overlay = overlay;
    }
  }

  /// From the smallest that works to more than is needed.
  Rings rings(Pipeline pipeline, const std::vector<WorkUnit>& units) {
    Rings rings = smallest_rings(pipeline, units);
    rings.host_bytes += up_to(12);
    rings.device_bytes += up_to(12);
    if (pipeline == Pipeline::preload) {
      uint64_t largest = 1;
      for (const WorkUnit& unit : units) largest = std::max(largest, unit.size_bytes);
      rings.host_bytes = up_to(1) == 0 ? 0 : largest + up_to(12);
    }
    return rings;
  }

 private:
  template <typename Unit>
  static bool is_free_after(const std::vector<Unit>& units, uint32_t before, uint32_t end) {
    for (uint32_t unit = before + 1; unit < end; ++unit) {
      const auto& overlay = units[unit].overlay;
      if (overlay && overlay->offset_bytes == units[before].overlay->offset_bytes) return false;
    }
    return true;
  }

  std::mt19937_64 random_;
};

}  // namespace weightpager::pipeline
