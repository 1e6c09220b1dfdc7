// See swapnet_baselines.h.
#include "tools/commands/reproduce/swapnet_baselines.h"

#include <algorithm>

#include "runtime/infer/window_use.h"

namespace weightpager::tools::swapnet {
namespace {

using network::Activation;
using network::Layer;

/// The layers that give classes or boxes: their channels are not to be pruned.
bool has_classes(const Layer& layer) {
  return !layer.is_batch_normalized() && network::activation_of(layer) == Activation::linear;
}

PrunedNetwork at_width(const PaperNetwork& paper_network, double width) {
  double bytes = 0, operations = 0, all_operations = 0;
  for (const Layer& layer : paper_network.network.layers) {
    const double inputs = layer.inputs.front() == network::network_input ? 1 : width;
    const double outputs = has_classes(layer) ? 1 : width;
    const auto weights_bytes = static_cast<double>(sizeof(float) * layer.weights());
    const auto layer_operations = static_cast<double>(infer::operations(layer));
    // Beside the weights there are some numbers for each output channel.
    bytes += weights_bytes * inputs * outputs +
             (static_cast<double>(layer.raw_bytes()) - weights_bytes) * outputs;
    operations += layer_operations * inputs * outputs;
    all_operations += layer_operations;
  }
  return {.width = width,
          .size_bytes = static_cast<uint64_t>(bytes),
          .operations_share = operations / all_operations};
}

}  // namespace

uint64_t in_memory_bytes(const PublishedModel& known, uint64_t size_bytes) {
  return (known.is_on_gpu ? 3 : 2) * size_bytes;
}

budget::BlockEnds equal_blocks(const budget::BlockSums& sums, uint32_t blocks) {
  budget::BlockEnds ends;
  for (uint32_t i = 1; i < blocks; ++i) {
    const uint64_t wanted_bytes = sums.all().size_bytes * i / blocks;
    // At least one layer for this block, and for each one that follows.
    uint32_t end = (ends.empty() ? 0 : ends.back()) + 1;
    const uint32_t last = sums.layers() - (blocks - i);
    while (end < last && sums.bytes(0, end + 1) <= wanted_bytes) ++end;
    ends.push_back(end);
  }
  ends.push_back(sums.layers());
  return ends;
}

uint64_t by_channel_bytes(uint64_t size_bytes) { return size_bytes + size_bytes / 2; }

PrunedNetwork pruned(const PaperNetwork& network, uint64_t bytes_max) {
  double low = 0, high = 1;
  constexpr int halvings = 40;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (at_width(network, middle).size_bytes <= bytes_max ? low : high) = middle;
  }
  return at_width(network, low);
}

}  // namespace weightpager::tools::swapnet
