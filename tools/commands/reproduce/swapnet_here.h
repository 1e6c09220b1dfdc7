// Networks in blocks on this machine, for SwapNet's figures that are measured.
//
// Problem. A figure compares ways to run one network: in blocks of several kinds, in a window, with
// all weights in memory. Times of a shared machine change from minute to minute.
//
// Idea. The delay model is fitted to the network's layers first, and blocks are planned by it. Then
// each way takes turns with the network in memory, inference by inference, and outputs are compared
// to the bit. Cost: a network on the disk, and some inferences of each way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/budget/blocks.h"
#include "runtime/budget/delay_model.h"
#include "runtime/infer/inference.h"
#include "runtime/network/network.h"
#include "runtime/network/resolution.h"
#include "tools/commands/reproduce/network_here.h"
#include "tools/commands/reproduce/paper.h"
#include "tools/commands/reproduce/swapnet_inputs.h"

namespace weightpager::tools::swapnet {

/// A network to run here, and its budget.
struct TaskHere {
  std::string title;
  /// Of `model make --net`.
  std::string name;
  /// Nothing: the size of its .cfg.
  std::optional<network::Resolution> resolution;
  uint64_t budget_bytes = 0;
};

/// One of the paper's.
TaskHere task_here(const PublishedTask& task);
/// The self-driving application's networks and budgets. Quickly, or with `--net`: one network, in
/// 60 % of its weights.
Result<std::vector<TaskHere>> tasks_here(const ReproduceSettings& settings);
/// ResNet-101, or the one network.
Result<TaskHere> resnet_here(const ReproduceSettings& settings);

/// Measured inferences of one way to run the network, and those in memory in between.
struct MeasuredWay {
  infer::WindowUse use;
  uint64_t window_bytes = 0;
  std::vector<uint64_t> delays_ns;     // sorted
  std::vector<uint64_t> in_memory_ns;  // sorted

  uint64_t median_ns() const { return delays_ns.at(delays_ns.size() / 2); }
  uint64_t in_memory_median_ns() const { return in_memory_ns.at(in_memory_ns.size() / 2); }
};

/// Movable. Used on one thread.
class NetworkInBlocks {
 public:
  /// Makes the network in a new folder within `parent`, and fits the delay model to it.
  static Result<NetworkInBlocks> make(const ReproduceSettings& settings, const std::string& parent,
                                      const TaskHere& task);

  const network::Network& network() const { return network_; }
  const budget::DelayModel& model() const { return model_; }
  /// By the delay model, with the sizes that blocks have in the file.
  const budget::BlockedNetwork& costs() const { return costs_; }
  uint64_t activation_bytes() const { return in_memory_->activation_bytes(); }
  uint64_t window_bytes() const { return windowed_->window_bytes(); }
  size_t blocks() const { return windowed_->window().units.size(); }

  /// The blocks that take the least time in this many bytes.
  infer::WindowRequest in_blocks(uint64_t window_bytes) const;
  /// These blocks.
  infer::WindowRequest in_blocks(const budget::BlockEnds& ends, infer::Assembly assembly) const;

  /// Runs the network in this way, `repeats` times in turns with the network in memory, after one
  /// inference that does not count. Fails if outputs differ in a bit.
  Result<MeasuredWay> run(const infer::WindowRequest& request, int repeats);
  /// The time in ns that it took to take the window: to plan it and to get its memory.
  Result<uint64_t> take_window(const infer::WindowRequest& request);
  Result<uint64_t> infer_once();

 private:
  explicit NetworkInBlocks(NetworkHere files) : files_(std::move(files)) {}

  Status check_outputs() const;

  NetworkHere files_;
  network::Network network_;
  std::vector<float> input_;
  budget::DelayModel model_;
  std::vector<pipeline::UnitCosts> layer_costs_;
  budget::BlockedNetwork costs_;
  std::unique_ptr<infer::Inference> in_memory_;
  std::unique_ptr<infer::Inference> windowed_;
};

}  // namespace weightpager::tools::swapnet
