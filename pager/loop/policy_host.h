// Which policy decides what is read and what goes, what it is told, and when another one takes
// over.
//
// Problem. A policy is a state machine that knows chunks by number. Somebody has to tell it the
// order of what is served, what the user pinned and what earlier runs learned, and to change it
// where another one would serve the engine better.
//
// Idea. Now and then touches are sampled for a while (touch_recorder.h). A thread of its own plays
// the sample to every policy (shadow/), and the best one takes over with what the window holds.
// Learned access profiles (profiles/) are kept for the next start as soon as a policy has learned
// something new.
//
// Cost: nothing between two samples. Used by the pager's thread only; telling the order allocates,
// which happens when an engine maps or unmaps something.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "pager/fault/doorbell.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/served_files.h"
#include "pager/loop/touch_recorder.h"
#include "pager/loop/waiters.h"
#include "pager/policy/named/make_policy.h"
#include "pager/profiles/stored_access_profile.h"
#include "pager/shadow/adaptation.h"
#include "pager/shadow/judge_thread.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/chunk_table.h"

namespace weightpager {

/// What a PolicyHost looks at and acts on; all of it outlives the host.
struct PolicyHostParts {
  const PagerOptions& options;
  const window::ChunkTable& table;
  const ServedFiles& files;
  const Waiters& waiters;
  TouchRecorder& recorder;
  /// Rung by the judge's thread.
  fault::Doorbell& doorbell;
};

class PolicyHost {
 public:
  explicit PolicyHost(const PolicyHostParts& parts);

  /// Makes the policy that the options name. `can_see_touches`: chunks that are shown can be hidden
  /// again, without which nothing can be adapted. Fails if there is no such policy.
  Status begin(const policy::Settings& settings, bool can_see_touches);
  /// Ends the judge's thread, which may ring the doorbell until then.
  void end() { judge_.reset(); }

  /// As begin() was told them.
  const policy::Settings& settings() const { return settings_; }
  policy::Policy& policy() { return *policy_; }
  const policy::Policy& policy() const { return *policy_; }
  /// Of this policy and of former ones.
  policy::PolicyStatistics statistics() const;
  /// How often a thread stood still at a chunk since the beginning.
  uint64_t touches() const;
  /// What on_time() and counters take the time for.
  void set_time(uint64_t now_ns);

  /// The order of chunks has changed: files, regions, pins, or what was written.
  void tell_order() { tell(false); }
  /// The engine made chunks its own: the order is told anew, but not at each write.
  void note_order_stale() { is_order_stale_ = true; }
  /// Spilled memory has more content: the order is told anew when it grows no more for a moment.
  void note_order_grows() { order_grew_ns_ = now_ns_; }
  void tell_order_if_stale();
  /// The window's size has changed; before begin() nobody has to be told.
  void on_window_resized();
  /// Counts how the policy divides the window.
  void account_parts();
  /// The same when an order was told, and something has been touched since.
  void account_parts_of_order();
  /// A file is served: an earlier run may have learned how it is used.
  void find_learned_profile();
  /// Keeps what the policy has learned for the next start, if that is new.
  void keep_learned_profile();

  /// These chunks shall stay, and no others any more that were asked for before; returns how many
  /// of them the policy has room for.
  uint32_t pin(std::span<const window::ChunkId> chunks);
  void unpin_unserved();

  /// Fails if there is no such policy that can be used live.
  Status change_policy(const std::string& name);
  /// Any thread.
  bool adapts() const { return adapts_.load(std::memory_order_relaxed); }
  /// Carries out what adaptation decides: to be called often.
  void adapt();

 private:
  bool can_adapt() const { return can_see_touches_ && options_.touch_record == nullptr; }
  void make_policy(std::string_view name);
  void begin_adapting(std::string_view name);
  void end_adapting();
  void ask_judge();
  void take_over(std::string_view name);
  void adopt(std::string_view name);
  shadow::AdaptationProgress progress() const;
  policy::ChunkOrder find_order(uint32_t& shown_chunks) const;
  void tell(bool is_load_over);
  policy::AccessProfile access_profile() const;
  void erase_spilled(policy::AccessProfile& access_profile) const;

  const PagerOptions& options_;
  telemetry::Telemetry& telemetry_;
  const window::ChunkTable& table_;
  const ServedFiles& files_;
  const Waiters& waiters_;
  TouchRecorder& recorder_;
  fault::Doorbell& doorbell_;
  policy::Settings settings_;
  std::unique_ptr<policy::Policy> policy_;
  policy::PolicyStatistics former_statistics_;
  std::optional<shadow::Adaptation> adaptation_;
  std::unique_ptr<shadow::JudgeThread> judge_;
  std::vector<window::ChunkId> pinned_;
  std::optional<profiles::StoredAccessProfile>
      earlier_;  // run's profile, until there is one of our own
  uint64_t profiles_learned_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t order_told_ns_ = 0;
  uint64_t order_grew_ns_ = 0;  // 0: it has not since it was told
  bool is_order_stale_ = false;
  uint64_t touches_at_order_ = 0;
  bool is_verdict_unwanted_ = false;  // what was asked about is over
  bool can_see_touches_ = false;
  std::atomic<bool> adapts_{false};
};

}  // namespace weightpager
