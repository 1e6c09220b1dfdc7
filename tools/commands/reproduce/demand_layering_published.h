// What the Demand Layering paper publishes of its networks, and what their layers cost on its
// board.
//
// Problem. The paper gives delays and memory of five networks on one board, and few of the times
// behind them.
//
// Idea. The networks follow from their structure. A layer's costs follow from bytes and operations
// (runtime/infer/assumed_costs.h), with the disk and the bus of the paper's board. What is left is
// one number for each network, the kernels' time. By Equations (1) and (5) it is the time of all
// reads and copies over the published overhead of Seq.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/timeline.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::demand_layering {

using Costs = std::vector<pipeline::UnitCosts>;

/// Against Pre, in percent.
struct PipelineChange {
  double memory = 0;
  double delay = 0;
};

struct ComparedPipeline {
  const char* name;
  pipeline::Pipeline pipeline;
  /// The smallest window with the least delay, not the smallest window.
  bool is_without_delay;
};

inline constexpr std::array<ComparedPipeline, 6> compared = {
    {{"Seq", pipeline::Pipeline::sequential, false},
     {"Sync", pipeline::Pipeline::synchronous, false},
     {"Async", pipeline::Pipeline::asynchronous, false},
     {"Async-MD", pipeline::Pipeline::asynchronous, true},
     {"2S", pipeline::Pipeline::two_stage, false},
     {"2S-MD", pipeline::Pipeline::two_stage, true}}};

/// A row of the paper's Table I, and its row of Table II.
struct PublishedPipelines {
  const char* name;
  const char* title;
  double model_mib;
  size_t layers;
  double largest_layer_mib;
  uint32_t side;
  /// In the order of `compared`.
  std::array<PipelineChange, 6> changes;
};

inline constexpr std::array<PublishedPipelines, 5> published = {{
    {"yolov3",
     "YOLOv3",
     236.5,
     107,
     18.0,
     608,
     {{{-92.4, 44.9}, {-84.8, 18.9}, {-92.4, 18.1}, {-83.1, 1.7}, {-96.2, 21.8}, {-84.8, 0.5}}}},
    {"yolov4",
     "YOLOv4",
     245.8,
     162,
     18.0,
     608,
     {{{-92.7, 52.1}, {-85.4, 23.7}, {-92.7, 12.7}, {-83.1, 1.7}, {-96.3, 21.5}, {-89.3, 0.4}}}},
    {"yolov4-p6",
     "YOLOv4-P6",
     487.2,
     305,
     36.0,
     640,
     {{{-92.6, 70.2}, {-85.2, 38.4}, {-92.6, 8.7}, {-84.2, 2.0}, {-96.3, 16.7}, {-85.7, 0.3}}}},
    {"resnet152",
     "ResNet152",
     219.6,
     206,
     9.0,
     608,
     {{{-95.9, 45.8}, {-91.8, 11.4}, {-95.9, 2.7}, {-92.0, 1.2}, {-98.0, 5.1}, {-93.9, 0.2}}}},
    {"densenet201",
     "DenseNet201",
     65.6,
     306,
     5.9,
     608,
     {{{-91.0, 65.4}, {-82.0, 22.9}, {-91.0, 2.0}, {-86.9, 1.0}, {-95.5, 8.9}, {-88.2, 0.4}}}},
}};
inline constexpr size_t yolov4 = 1;

inline constexpr const char* by_equation =
    "By equation: the disk and the bus of the paper's board, and kernels whose sum follows from "
    "the published overhead of Seq.";

/// The network with square pictures of `side` pixels.
Result<network::Network> published_network(const PublishedPipelines& known, uint32_t side);

/// A network of the paper's with what it costs on the paper's board.
struct CostedNetwork {
  const PublishedPipelines& known;
  network::Network network;
  double kernels_ms = 0;
  Costs costs;
};

Result<CostedNetwork> costed_network(const PublishedPipelines& known);

/// Its costs with pictures of another size: a kernel's operations change, and nothing else.
Result<Costs> costs_at(const CostedNetwork& it, uint32_t side);

uint64_t sum_of(const Costs& costs, uint64_t pipeline::UnitCosts::*part);

/// Without stalls: nearest to the paper's Table II when a delay of 0.4 % more than the least one
/// counts as the least.
pipeline::Rings rings_of(const ComparedPipeline& how, const Costs& costs);

/// Sides of pictures from 224 or little more to the network's own: multiples of 32 pixels, and for
/// YOLOv4-P6, which halves its pictures once more, of 64.
std::vector<uint32_t> sides_of_pictures(const ReproduceSettings& settings,
                                        const PublishedPipelines& known);

}  // namespace weightpager::tools::demand_layering
