// YOLOv4 at 608 × 608, as the Demand Layering paper ran it: its 162 layers, and what they cost on
// the paper's machine.
//
// Sizes are those of Darknet's own weights, batch normalization as four numbers per channel. They
// and the operations follow from the network's structure alone; they add up to what the paper says
// of it (245.8 MiB, six largest layers of 18.0 MiB, 75 layers below 0.1 MiB).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/units.h"
#include "runtime/pipeline/simulate.h"
#include "runtime/pipeline/tiles.h"

namespace weightpager::pipeline {

struct Yolov4Layer {
  uint64_t size_bytes;
  uint64_t operations;       // floating point, multiplications and additions
  uint32_t output_channels;  // 1 where there are no weights
};

// clang-format off
inline constexpr Yolov4Layer yolov4_layers[] = {
    {3968, 638779392, 32}, {74752, 3406823424, 64}, {17408, 757071872, 64}, {0, 0, 1},
    {17408, 757071872, 64}, {8704, 378535936, 32}, {74752, 3406823424, 64}, {0, 0, 1},
    {17408, 757071872, 64}, {0, 0, 1}, {33792, 1514143744, 64}, {296960, 3406823424, 128},
    {33792, 378535936, 64}, {0, 0, 1}, {33792, 378535936, 64}, {17408, 189267968, 64},
    {148480, 1703411712, 64}, {0, 0, 1}, {17408, 189267968, 64}, {148480, 1703411712, 64},
    {0, 0, 1}, {17408, 189267968, 64}, {0, 0, 1}, {67584, 757071872, 128},
    {1183744, 3406823424, 256}, {133120, 378535936, 128}, {0, 0, 1}, {133120, 378535936, 128},
    {67584, 189267968, 128}, {591872, 1703411712, 128}, {0, 0, 1}, {67584, 189267968, 128},
    {591872, 1703411712, 128}, {0, 0, 1}, {67584, 189267968, 128}, {591872, 1703411712, 128},
    {0, 0, 1}, {67584, 189267968, 128}, {591872, 1703411712, 128}, {0, 0, 1},
    {67584, 189267968, 128}, {591872, 1703411712, 128}, {0, 0, 1}, {67584, 189267968, 128},
    {591872, 1703411712, 128}, {0, 0, 1}, {67584, 189267968, 128}, {591872, 1703411712, 128},
    {0, 0, 1}, {67584, 189267968, 128}, {591872, 1703411712, 128}, {0, 0, 1},
    {67584, 189267968, 128}, {0, 0, 1}, {266240, 757071872, 256}, {4726784, 3406823424, 512},
    {528384, 378535936, 256}, {0, 0, 1}, {528384, 378535936, 256}, {266240, 189267968, 256},
    {2363392, 1703411712, 256}, {0, 0, 1}, {266240, 189267968, 256}, {2363392, 1703411712, 256},
    {0, 0, 1}, {266240, 189267968, 256}, {2363392, 1703411712, 256}, {0, 0, 1},
    {266240, 189267968, 256}, {2363392, 1703411712, 256}, {0, 0, 1}, {266240, 189267968, 256},
    {2363392, 1703411712, 256}, {0, 0, 1}, {266240, 189267968, 256}, {2363392, 1703411712, 256},
    {0, 0, 1}, {266240, 189267968, 256}, {2363392, 1703411712, 256}, {0, 0, 1},
    {266240, 189267968, 256}, {2363392, 1703411712, 256}, {0, 0, 1}, {266240, 189267968, 256},
    {0, 0, 1}, {1056768, 757071872, 512}, {18890752, 3406823424, 1024}, {2105344, 378535936, 512},
    {0, 0, 1}, {2105344, 378535936, 512}, {1056768, 189267968, 512}, {9445376, 1703411712, 512},
    {0, 0, 1}, {1056768, 189267968, 512}, {9445376, 1703411712, 512}, {0, 0, 1},
    {1056768, 189267968, 512}, {9445376, 1703411712, 512}, {0, 0, 1}, {1056768, 189267968, 512},
    {9445376, 1703411712, 512}, {0, 0, 1}, {1056768, 189267968, 512}, {0, 0, 1},
    {4210688, 757071872, 1024}, {2105344, 378535936, 512}, {18890752, 3406823424, 1024},
    {2105344, 378535936, 512}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1},
    {4202496, 757071872, 512}, {18890752, 3406823424, 1024}, {2105344, 378535936, 512},
    {528384, 94633984, 256}, {0, 0, 1}, {0, 0, 1}, {528384, 378535936, 256}, {0, 0, 1},
    {528384, 378535936, 256}, {4726784, 3406823424, 512}, {528384, 378535936, 256},
    {4726784, 3406823424, 512}, {528384, 378535936, 256}, {133120, 94633984, 128}, {0, 0, 1},
    {0, 0, 1}, {133120, 378535936, 128}, {0, 0, 1}, {133120, 378535936, 128},
    {1183744, 3406823424, 256}, {133120, 378535936, 128}, {1183744, 3406823424, 256},
    {133120, 378535936, 128}, {1183744, 3406823424, 256}, {262140, 754114560, 255}, {0, 0, 1},
    {0, 0, 1}, {1183744, 851705856, 256}, {0, 0, 1}, {528384, 378535936, 256},
    {4726784, 3406823424, 512}, {528384, 378535936, 256}, {4726784, 3406823424, 512},
    {528384, 378535936, 256}, {4726784, 3406823424, 512}, {523260, 377057280, 255}, {0, 0, 1},
    {0, 0, 1}, {4726784, 851705856, 512}, {0, 0, 1}, {2105344, 378535936, 512},
    {18890752, 3406823424, 1024}, {2105344, 378535936, 512}, {18890752, 3406823424, 1024},
    {2105344, 378535936, 512}, {18890752, 3406823424, 1024}, {1045500, 188528640, 255}, {0, 0, 1},
};
// clang-format on

/// Fitted to the paper's four delays: kernels 0.2 ms each and the rest of 160.8 ms by operations;
/// reads 4201 MiB/s and 0.05 ms each; copies 13886 MiB/s and 0.02 ms each.
inline std::vector<TileableLayer> yolov4() {
  constexpr double kernels_ns = 160.8e6, per_kernel_ns = 0.2e6;
  double operations = 0;
  for (const Yolov4Layer& layer : yolov4_layers)
    operations += static_cast<double>(layer.operations);
  const double per_operation_ns =
      (kernels_ns - per_kernel_ns * static_cast<double>(std::size(yolov4_layers))) / operations;
  std::vector<TileableLayer> layers;
  for (const Yolov4Layer& layer : yolov4_layers) {
    const auto size_bytes = static_cast<double>(layer.size_bytes);
    UnitCosts costs{.size_bytes = layer.size_bytes};
    costs.kernel_ns = static_cast<uint64_t>(
        per_kernel_ns + per_operation_ns * static_cast<double>(layer.operations));
    if (layer.size_bytes > 0) {
      costs.read_ns = static_cast<uint64_t>(size_bytes / (4201.0 * MiB) * 1e9 + 0.05e6);
      costs.copy_ns = static_cast<uint64_t>(size_bytes / (13886.0 * MiB) * 1e9 + 0.02e6);
    }
    layers.push_back({.costs = costs, .output_channels = layer.output_channels});
  }
  return layers;
}

/// The whole layers, with reads from another disk.
inline std::vector<UnitCosts> yolov4_costs() {
  std::vector<UnitCosts> costs;
  for (const TileableLayer& layer : yolov4()) costs.push_back(layer.costs);
  return costs;
}

/// The costs with reads from a disk of this speed.
struct Disk {
  double bytes_per_s = 0;
  /// Of one read, on top; it does not overlap with other reads.
  uint64_t latency_ns = 0;
};
inline std::vector<UnitCosts> with_disk(std::span<const UnitCosts> costs, const Disk& disk) {
  std::vector<UnitCosts> changed(costs.begin(), costs.end());
  for (UnitCosts& unit : changed) {
    if (unit.size_bytes == 0) continue;
    const double transfer_ns = static_cast<double>(unit.size_bytes) / disk.bytes_per_s * 1e9;
    unit.read_ns = disk.latency_ns + static_cast<uint64_t>(std::llround(transfer_ns));
  }
  return changed;
}

inline std::vector<UnitCosts> yolov4_costs(double gigabytes_per_s) {
  return with_disk(yolov4_costs(), {.bytes_per_s = gigabytes_per_s * 1e9, .latency_ns = 50'000});
}

}  // namespace weightpager::pipeline
