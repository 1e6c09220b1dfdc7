// Compares all pipelines on one network, on this machine: memory for weights against delay.
//
// Problem. The best pipeline and window depend on the network, the disk and the processor; the
// Demand Layering paper's Table III and Figures 12 and 13 are about one board.
//
// Idea. Run all of them in turns, on the real file. The sequential pipeline does one thing at a
// time, so it also measures what each layer costs. From these costs the equations give the windows
// of the minimal-delay configurations (Async-MD, 2S-MD), which are then run like the others. All
// configurations must compute the same bits.
//
// A window with tiles is also compared with all weights in memory beside the same reads
// (reads_beside.h): the difference is the pipeline's own cost, without the cost of reading.
//
// Cost: (pipelines + 3 · windows) × inferences, and pinned weights are read once in each turn.
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
  /// Inferences of each configuration that count.
  uint32_t inferences = 20;
  /// Configurations take turns of so many inferences, each turn after one inference that does not
  /// count.
  uint32_t inferences_per_turn = 5;
  /// Two-stage pipelines (on a GPU, asynchronous ones) with layers in tiles, in these windows.
  std::vector<uint64_t> tiled_windows_bytes;
  /// Reads counters of the machine (joules); how much they grow is kept for each configuration.
  std::function<std::vector<double>()> read_counters;
  /// Is told the progress: "yolov4: round 2 of 4".
  std::function<void(const std::string&)> on_progress;
};

/// One pipeline with one window.
struct Configuration {
  /// As in the paper: Pre, Seq, Sync, Async, 2S, Async-MD, 2S-MD; with tiles "2S tiles" or "Async
  /// tiles". On processors "Pre + reads" comes before "2S tiles", and after it comes "2S overlay":
  /// the same window, with the arena overlay.
  std::string name;
  pipeline::Pipeline pipeline = pipeline::Pipeline::two_stage;
  /// The memory that was taken for weights.
  uint64_t window_bytes = 0;
  uint64_t pinned_bytes = 0;
  /// The measured use of a GPU's memory.
  DeviceMemoryUse device_memory;
  size_t pieces = 0;
  /// Bytes read in one inference.
  uint64_t read_bytes = 0;
  /// The delay from the equations; 0 if it was not calculated.
  uint64_t predicted_ns = 0;
  /// The median delay of Pre beside the same reads; 0 if that was not run.
  uint64_t floor_ns = 0;
  /// The measured delays, sorted.
  std::vector<uint64_t> delays_ns;
  /// By how much the counters grew in these inferences, all together; empty without counters.
  std::vector<double> counted;
  /// The times of the last inference.
  TracedInference last;

  uint64_t median_ns() const { return delays_ns.at(delays_ns.size() / 2); }
};

struct Comparison {
  std::vector<Configuration> configurations;  // the first is Pre
  /// The costs of whole layers, by layer: medians.
  std::vector<pipeline::UnitCosts> layer_costs;
  uint64_t activation_bytes = 0;
  std::string reader;
  bool is_direct = false;

  /// The first configuration of that name; nullptr if there is none.
  const Configuration* find(const std::string& name) const;
  /// The costs of all layers together.
  pipeline::UnitCosts all_layers() const;
};

/// Fails if a configuration fails, or if two configurations compute different bits.
Result<Comparison> compare_pipelines(const network::Network& network,
                                     const ComparisonOptions& options);

}  // namespace weightpager::infer
