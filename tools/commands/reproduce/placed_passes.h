// Passes over a network's activations, at places that are given: to see what places cost.
//
// Two kinds. An inference computes: its layers run with all weights in memory, as `weightpager
// infer` runs them, and only the places of activations differ. Memory traffic only moves: every
// tensor is written by its first operation and read by its last one. It needs no more than usage
// records, and shows the most that places can matter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/anonymous_memory.h"
#include "pager/base/result.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/plan/aligned_floats.h"

namespace weightpager::tools {

/// Where tensors lie in one block.
struct Places {
  std::string name;
  /// By tensor.
  std::vector<uint64_t> begin_bytes;
  uint64_t total_bytes = 0;
};

/// Nothing shared, the best shared objects (in a row), and the best offsets.
std::vector<Places> compared_places(memory::Tensors tensors);

/// Not thread-safe; always use it on the same thread.
class TrafficPass {
 public:
  static Result<TrafficPass> make(memory::Tensors tensors, const Places& places);

  Status run();

 private:
  struct Move {
    uint64_t begin_bytes = 0;
    uint64_t size_bytes = 0;
    bool is_write = false;
  };

  AnonymousMemory memory_;
  std::vector<Move> moves_;  // in the order of operations; at each, reads before writes
  uint64_t sum_ = 0;         // of what was read
};

/// A network's layers and all of its weights, which are made up.
struct LoadedNetwork {
  network::Network network;
  memory::ActivationLayout layout;
  ops::CpuOperations operations;
  std::vector<float> input;
  /// One layer's behind the other's, each aligned.
  plan::AlignedFloats weights;
  /// The same for every layer.
  plan::AlignedFloats biases;
};
/// `name`: one of network::described_networks(). It computes on one thread: where several wait for
/// each other, what else the machine does counts more than caches.
Result<std::shared_ptr<LoadedNetwork>> load_network(const std::string& name);

/// As TrafficPass.
class InferencePass {
 public:
  static Result<InferencePass> make(std::shared_ptr<LoadedNetwork> loaded, const Places& places);

  Status run();
  /// The last layer's, of the last run.
  std::vector<float> output() const;

 private:
  InferencePass(std::shared_ptr<LoadedNetwork> loaded, memory::Activations activations);

  std::shared_ptr<LoadedNetwork> loaded_;
  memory::Activations activations_;
};

}  // namespace weightpager::tools
