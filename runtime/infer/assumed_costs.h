// What layers cost on a machine that is not at hand.
//
// The costs reproduce the Demand Layering paper's delays for YOLOv4 to within half a percent. A
// kernel takes a share of the total in proportion to its operations, and 0.2 ms. A read takes its
// bytes at the disk's speed, and 0.05 ms; a copy takes its bytes at the bus's speed, and 0.02 ms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/network/network.h"
#include "runtime/pipeline/tiles.h"
#include "runtime/pipeline/timeline.h"

namespace weightpager::infer {

/// How fast the paper's machine reads, by the paper's delays for YOLOv4.
inline constexpr double paper_disk_gb_per_s = 4.405;

struct AssumedMachine {
  /// The time of all kernels of one inference.
  double kernels_ms = 0;
  double disk_gb_per_s = paper_disk_gb_per_s;
};

/// By layer. Of layers without weights, reads and copies cost nothing.
std::vector<pipeline::UnitCosts> assumed_costs(const network::Network& network,
                                               const AssumedMachine& machine);

/// The time of all kernels if the network gets pictures of another size, which `resized` has: the
/// 0.2 ms of each kernel stay, and the rest changes with the operations.
double resized_kernels_ms(const network::Network& network, double kernels_ms,
                          const network::Network& resized);

/// The layers in tiles of at most `tile_bytes_max`. Each tile after a layer's first one costs 0.05
/// ms of reading and 0.02 ms of computing.
std::vector<pipeline::Tile> assumed_tiles(const network::Network& network,
                                          std::span<const pipeline::UnitCosts> costs,
                                          uint64_t tile_bytes_max);

inline constexpr uint64_t read_ns_per_tile = 50'000;
inline constexpr uint64_t kernel_ns_per_tile = 20'000;

}  // namespace weightpager::infer
