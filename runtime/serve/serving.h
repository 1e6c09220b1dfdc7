// Several networks at once in one memory budget, each in a window of its own that follows the
// budget.
//
// Problem. Networks that a device runs side by side have more weights than it has memory for them.
// Each can do with less than all, at some cost in time; which of them shall? And memory that
// somebody else needs, or gives back, changes the answer while they run.
//
// Idea. What each network's layers cost is measured first, one network after the other; from that
// follows how fast it is in any window (demand.h), and from these, which windows together make
// slowdowns least (budget/shares.h). Then every network computes on a thread and processors
// of its own, and reads through one gate, by urgency (disk_gate.h). Activations and scratch memory
// are theirs for good: only what they leave of the budget is divided.
//
// When the budget changes, new shares are looked up at once. A network takes its new window between
// two inferences. Whoever has to shrink does so first: memory is promised to one network only when
// others have given it back, so all windows together are within the budget at every instant from
// then on when the last one has shrunk.
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
  /// How to compute, by layer, from weights that were packed for it (plan/layer_choice.h). Empty:
  /// plainly.
  std::vector<plan::LayerChoice> choices;
  /// Above 0; of 2 every delay counts twice.
  double urgency = 1;
  /// An inference is due at every multiple of it; 0: each right after the one before.
  uint64_t period_ns = 0;
  int threads = 1;
  /// That its threads may run on; empty: all.
  std::vector<int> processors;
};

struct ServingOptions {
  /// For windows, activations and scratch memory of all networks.
  uint64_t budget_bytes = 0;
  SharingGoal goal = SharingGoal::mean_slowdown;
  /// After each inference, on its network's thread.
  std::function<void(uint32_t network, const infer::Inference& inference)> on_inference;
};

struct ServedInference {
  uint64_t start_ns = 0;
  uint64_t finish_ns = 0;
  /// That it ran in.
  uint64_t window_bytes = 0;

  uint64_t delay_ns() const { return finish_ns - start_ns; }
};

inline constexpr size_t inferences_kept_max = 100'000;

/// How a network fares.
struct NetworkState {
  std::string name;
  uint64_t period_ns = 0;
  uint64_t weights_bytes = 0;
  uint64_t least_window_bytes = 0;
  /// Activations and scratch memory.
  uint64_t fixed_bytes = 0;
  /// Of windows: what it shall have, and what it has.
  uint64_t share_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t read_bytes = 0;
  /// What a byte that is read takes from its processors, as measured.
  double reading_ns_per_byte = 0;
  /// With all weights in memory, and in its share with the disk to itself: as planned.
  uint64_t in_memory_ns = 0;
  uint64_t planned_ns = 0;
  uint64_t inferences = 0;
};

struct ServingState {
  uint64_t budget_bytes = 0;
  uint64_t least_budget_bytes = 0;
  /// The most that windows, activations and scratch memory were together, also while measuring.
  uint64_t peak_bytes = 0;
  std::vector<NetworkState> networks;
};

/// Thread-safe once it is started.
class Serving {
 public:
  /// Measures, divides, and lets all begin. Fails if a network cannot be opened, and below the
  /// least budget, which the error names.
  static Result<std::unique_ptr<Serving>> start(std::vector<NetworkRequest> requests,
                                                const ServingOptions& options);
  /// After the inferences that are under way.
  ~Serving();

  /// New shares, at once; windows follow as inferences end. Returns how long it took to find them.
  /// Below the least budget it fails, and everything stays as it is.
  Result<uint64_t> set_budget(uint64_t budget_bytes);
  /// Whether it would.
  Status check_budget(uint64_t budget_bytes) const;

  /// Returns when so long has passed, or a network has failed: its error. What others do goes on
  /// until the end.
  Status wait(uint64_t timeout_ns);
  ServingState state() const;
  /// The latest, `inferences_kept_max` at most.
  std::vector<ServedInference> inferences(uint32_t network) const;

 private:
  struct Member;

  Serving(const ServingOptions& options, const std::vector<NetworkRequest>& requests);
  Status open(std::vector<NetworkRequest> requests);
  Status measure(Member& member);
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
  uint64_t measuring_peak_bytes_ = 0;  // known before anybody is served
  bool has_begun_ WP_GUARDED_BY(mutex_) = false;
  bool is_stopping_ WP_GUARDED_BY(mutex_) = false;
  Status outcome_ WP_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace weightpager::serve
