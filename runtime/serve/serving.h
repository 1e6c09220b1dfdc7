// Serves several networks at once in one memory budget. Each has a window of its own, which follows
// the budget.
//
// Problem. Networks that run side by side on a device have more weights than the device has memory
// for. Each network can run with less memory than its weights take, but more slowly. Which network
// should get how much? The answer changes while they run, when other programs need memory or give
// it back.
//
// Idea. First the costs of each network's layers are measured, one network after the other. From
// the costs follows each network's delay in any window (demand.h), and from the delays follow the
// windows that together make slowdowns least (budget/shares.h). Then every network computes on a
// thread and processors of its own, and all read through one gate, by urgency (disk_gate.h).
// Networks keep their activations and scratch memory for good: only the rest of the budget is
// divided.
//
// When the budget changes, new shares are looked up at once. A network takes its new window between
// two inferences. Networks that shrink come first: a network grows only into memory that others
// have given back. So from the moment when the last network has shrunk, all windows together are
// always within the budget.
//
// Start reading at `Serving::serve`. Cost: some inferences of each network at the start; then two
// locks per inference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/result.h"
#include "runtime/infer/inference.h"
#include "runtime/network/network.h"
#include "runtime/serve/demand.h"
#include "runtime/serve/disk_gate.h"

namespace weightpager::serve {

struct NetworkRequest {
  std::string name;
  network::Network network;
  std::string weights_path;
  /// The code that computes each layer, from weights that were packed for it (plan/layer_choice.h).
  /// Empty: the plain operations.
  std::vector<plan::LayerChoice> choices;
  /// Above 0; with 2 each of its delays counts twice.
  double urgency = 1;
  /// An inference is due at every multiple of the period. 0: each begins right after the one
  /// before.
  uint64_t period_ns = 0;
  int threads = 1;
  /// Processors that its threads may run on. Empty: all.
  std::vector<int> processors;
};

struct ServingOptions {
  /// For windows, activations and scratch memory of all networks.
  uint64_t budget_bytes = 0;
  SharingGoal goal = SharingGoal::mean_slowdown;
  /// Windows are used for SwapNet's blocks (infer/block_use.h).
  bool is_by_blocks = false;
  /// Called after each inference, on its network's thread.
  std::function<void(uint32_t network, const infer::Inference& inference)> on_inference;
};

struct ServedInference {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  /// The window that it ran in.
  uint64_t window_bytes = 0;

  uint64_t delay_ns() const { return finish_ns - start_ns; }
};

inline constexpr size_t inferences_kept_max = 100'000;

/// The present state of a network.
struct NetworkState {
  std::string name;
  uint64_t period_ns = 0;
  uint64_t weights_bytes = 0;
  uint64_t least_window_bytes = 0;
  /// Activations and scratch memory.
  uint64_t fixed_bytes = 0;
  /// Memory for its window: the size that it should have, and the size that it has.
  uint64_t share_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t read_bytes = 0;
  /// The measured processor time for each byte that is read.
  double reading_ns_per_byte = 0;
  /// Calculated delays: with all weights in memory, and in a window of `share_bytes` with the disk
  /// to itself.
  uint64_t in_memory_ns = 0;
  uint64_t planned_ns = 0;
  uint64_t inferences = 0;
};

struct ServingState {
  uint64_t budget_bytes = 0;
  uint64_t least_budget_bytes = 0;
  /// The most memory that windows, activations and scratch memory have taken together, also during
  /// the measurement.
  uint64_t peak_bytes = 0;
  std::vector<NetworkState> networks;
};

/// Thread-safe once `start` has returned.
class Serving {
 public:
  /// Measures all networks, divides the budget, and lets all networks begin. Fails if a network
  /// cannot be opened, or if the budget is below the least budget, which the error names.
  static Result<std::unique_ptr<Serving>> start(std::vector<NetworkRequest> requests,
                                                const ServingOptions& options);
  /// Waits for the inferences that are under way.
  ~Serving();

  /// Calculates new shares at once; windows follow when inferences end. Returns the time in ns that
  /// it took to find the shares. Fails below the least budget, and then changes nothing.
  Result<uint64_t> set_budget(uint64_t budget_bytes);
  /// Fails if `set_budget` would fail. Changes nothing.
  Status check_budget(uint64_t budget_bytes) const;

  /// Returns when this time has passed, or with a network's error when the network has failed. The
  /// other networks go on until the end.
  Status wait(uint64_t timeout_ns);
  ServingState state() const;
  /// The network's latest inferences, at most `inferences_kept_max`.
  std::vector<ServedInference> inferences(uint32_t network) const;

 private:
  struct Member;

  Serving(const ServingOptions& options, const std::vector<NetworkRequest>& requests);
  Status open(std::vector<NetworkRequest> requests);
  Status measure(Member& member);
  Result<NetworkDemand> demand_by_costs(Member& member) const;
  void serve(Member& member);
  bool wait_until_due(Member& member, uint64_t& due_ns);
  Status follow_share(Member& member);
  Status use_window(Member& member, uint64_t window_bytes);
  Status infer_once(Member& member);
  std::optional<uint64_t> window_to_take(Member& member) WP_REQUIRES(mutex_);
  Result<budget::Shares> shares_of(uint64_t budget_bytes) const;
  void promise(const budget::Shares& shares) WP_REQUIRES(mutex_);
  void note_peak() WP_REQUIRES(mutex_);
  uint64_t held_bytes() const WP_REQUIRES(mutex_);
  uint64_t fixed_bytes() const;
  uint64_t least_budget_bytes() const;

  const ServingOptions options_;
  DiskGate gate_;
  mutable Mutex mutex_;
  Condition changed_;
  uint64_t budget_bytes_ WP_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ WP_GUARDED_BY(mutex_) = 0;
  uint64_t measuring_peak_bytes_ = 0;  // known before any network is served
  bool has_begun_ WP_GUARDED_BY(mutex_) = false;
  bool is_stopping_ WP_GUARDED_BY(mutex_) = false;
  Status outcome_ WP_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace weightpager::serve
