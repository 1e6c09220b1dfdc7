// What the SwapNet paper's text says of its networks, its board and its three applications, and
// what has to be assumed where the text says nothing.
//
// Problem. The text gives sizes, budgets and a few latencies. The coefficients of the delay model
// and most latencies are in pictures alone.
//
// Idea. Networks follow from their structure, as PyTorch has it: sizes with the means and variances
// of batch normalization, a tensor for each of its parameters. Of the delay model, β is in the
// text, and η follows from the time of letting ResNet-101 go. Kernels' times follow from the few
// latencies that the text has. What is left, the speed of the disk, is assumed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"
#include "runtime/budget/delay_model.h"
#include "runtime/network/network.h"

namespace weightpager::tools::swapnet {

/// MB of the paper are MiB: its sizes of ResNet-101 and VGG-19 show it.
constexpr uint64_t mib = 1 << 20;

enum class PaperModel { yolov3, fcn, vgg19, resnet101 };

/// A network as the paper publishes it.
struct PublishedModel {
  const char* title;
  /// For `weightpager model make --net`.
  const char* name;
  double size_mb;
  bool is_on_gpu;
};
const PublishedModel& published(PaperModel model);

/// One network of an application, with the budget that the paper gives it.
struct PublishedTask {
  PaperModel model;
  double budget_mb;
  /// What TPrg compresses the network to; 0: not in the text.
  double pruned_mb;
};

/// From the lowest to the highest value that the text has.
struct PublishedRange {
  double low;
  double high;
};

struct PublishedApplication {
  const char* figure;
  const char* title;
  /// For all networks.
  double budget_mb;
  std::vector<PublishedTask> tasks;
  /// Percent of memory less than each.
  PublishedRange less_than_whole;
  PublishedRange less_than_pruned;
  PublishedRange less_than_by_channel;
  /// Milliseconds beyond everything in memory.
  PublishedRange increase_ms;
};
const std::vector<PublishedApplication>& applications();

// ResNet-101 in three blocks (Figures 16 and 17).
inline constexpr double resnet_three_blocks_ms = 466;
inline constexpr double resnet_three_blocks_mb = 111;
inline constexpr double resnet_increase_ms = 15;
/// Its budgets in the self-driving, the road-side and the UAV application.
inline constexpr std::array resnet_budgets_mb = {102.0, 119.0, 136.0};

/// The middle of the 50 to 55 µs that an address reference takes (β).
inline constexpr double reference_us = 52.5;
/// Letting all of ResNet-101 go, "about 30 ms".
inline constexpr double release_ms = 30;
/// Assumed: the text names the disk, not its speed.
inline constexpr double disk_gb_per_s = 1.5;
/// What an increase of 36 ms, the middle of 26 to 46, is at the mean of 6.2 %: the time in memory
/// of YOLOv3 and FCN, of which the text has none.
inline constexpr double gpu_latency_ms = 36 / 0.062;

/// One of the paper's layers: a convolution or a connected layer with what follows it, up to the
/// next one. A convolution in a shortcut belongs to the layer before.
struct PaperLayer {
  budget::Work work;
  /// The first section of the .cfg.
  uint32_t first_section = 0;
};

struct PaperNetwork {
  const PublishedModel& known;
  network::Network network;
  std::vector<PaperLayer> layers;
  budget::DelayModel delays;
  budget::BlockedNetwork costs;

  uint64_t size_bytes() const;
  /// All kernels.
  uint64_t in_memory_ns() const;
};
Result<PaperNetwork> paper_network(PaperModel model);

/// The delay of blocks beyond computing: with the read of the first block, and without, as the
/// paper's Equation (4) has it.
struct Increase {
  uint64_t with_first_read_ns = 0;
  uint64_t by_equation_ns = 0;
};
Increase increase_of(const PaperNetwork& network, const budget::BlockEnds& ends);

}  // namespace weightpager::tools::swapnet
