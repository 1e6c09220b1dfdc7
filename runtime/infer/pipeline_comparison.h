// Every pipeline on one network, on this machine: memory for weights against delay.
//
// Problem. Which pipeline and which window are right depends on the network, the disk and the
// processor; the Demand Layering paper's Table III and Figures 12 and 13 are about one board.
//
// Idea. Run them all, taking turns, on the real file. The sequential pipeline does one thing at a
// time, so it also says what each layer costs; with that the equations give the windows of the
// minimal-delay configurations (Async-MD, 2S-MD), which are then run like the others. All of them
// must compute the same bits.
//
// What a window with tiles costs beyond reading at all is what it takes longer than everything in
// memory beside the same reads (reads_beside.h).
//
// Cost: (pipelines + 3 · windows) × inferences, and reading what is pinned once a turn.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/trace.h"
#include "runtime/network/network.h"

namespace weightpager::infer {

struct ComparisonOptions {
  std::string weights_path;
  DeviceKind device = DeviceKind::cpu;
  int threads = 1;
  /// Inferences that count, of each configuration.
  uint32_t inferences = 20;
  /// They take turns, so many inferences at a time, after one that does not count.
  uint32_t inferences_per_turn = 5;
  /// Two-stage pipelines (on a GPU, asynchronous ones) with layers in tiles, in these windows.
  std::vector<uint64_t> tiled_windows_bytes;
  /// "yolov4: round 2 of 4": what is going on.
  std::function<void(const std::string&)> on_progress;
};

/// One pipeline with one window.
struct Configuration {
  /// As in the paper: Pre, Seq, Sync, Async, 2S, Async-MD, 2S-MD; "2S tiles" or "Async
  /// tiles" with tiles. On processors "Pre + reads" comes before it and "2S overlay" after it: the
  /// same window, with the arena overlay.
  std::string name;
  pipeline::Pipeline pipeline = pipeline::Pipeline::two_stage;
  /// Memory for weights, as it was taken.
  uint64_t window_bytes = 0;
  uint64_t pinned_bytes = 0;
  /// Of a GPU's memory, as measured.
  DeviceMemoryUse device_memory;
  size_t pieces = 0;
  /// Read in one inference.
  uint64_t read_bytes = 0;
  /// What the equations say; 0 where they were not asked.
  uint64_t predicted_ns = 0;
  /// Median of Pre beside the same reads; 0 where that was not run.
  uint64_t floor_ns = 0;
  /// Measured, sorted.
  std::vector<uint64_t> delays_ns;
  /// The last inference.
  TracedInference last;

  uint64_t median_ns() const { return delays_ns.at(delays_ns.size() / 2); }
};

struct Comparison {
  std::vector<Configuration> configurations;  // the first is Pre
  /// Of the whole layers, by layer: medians.
  std::vector<pipeline::UnitCosts> layer_costs;
  uint64_t activation_bytes = 0;
  std::string reader;
  bool is_direct = false;
};

/// Fails if a configuration fails, or if one computes other bits than the others.
Result<Comparison> compare_pipelines(const network::Network& network,
                                     const ComparisonOptions& options);

}  // namespace weightpager::infer
