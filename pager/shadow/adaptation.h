// When to ask whether another policy would do better, and what to make of the answer.
//
// Problem. Which policy is best depends on how the engine uses its weights, which the model's files
// tell only in part. Touches of an engine that is served well are silent; seeing them costs a fault
// for each chunk.
//
// Idea. While the engine waits little, or reads no more than any policy must, nothing is done.
// Otherwise its touches are sampled, as many as three passes have, and the policies play the sample
// on paper (judge.h). A policy that is faster there takes over, and has to prove itself: a second
// sample shows how long the engine waits for each touch now. If that is no less than before, the
// former policy comes back, and the new one is not tried again; it comes back at once when the
// trial has cost more waiting than the whole sample before. After each judgement the next one is
// twice as far away, until the window or the model changes.
//
// An engine that still loads touches its weights in another order than it will compute. So no
// sample begins while the engine's own memory grows, unless the engine has read so much meanwhile
// that it must be computing.
//
// A pure state machine: the pager reports its progress, and carries out steps.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pager/shadow/judge.h"

namespace weightpager::shadow {

/// All counts but touches_sampled only grow.
struct AdaptationProgress {
  uint64_t now_ns = 0;
  uint64_t stall_ns = 0;
  uint64_t chunks_read = 0;
  uint64_t passes = 0;
  /// The engine has filled more memory of its own a moment ago.
  bool is_memory_growing = false;
  /// Touches since the sample was begun.
  uint32_t touches_sampled = 0;
};

class Adaptation {
 public:
  enum class Step {
    none,
    sample,      // touches are to be seen from now on
    judge,       // enough was seen: end the sample, and ask for a verdict
    adopt,       // end the sample, if there is one; policy() takes over
    end_sample,  // end the sample
  };

  /// `policy`, and every verdict's, is a name of policy::named_policies().
  explicit Adaptation(std::string_view policy) : policy_(policy) {}

  /// `chunks` chunks are in use, and every pass touches `cyclic_chunks` of them. What is known so
  /// far is forgotten if `chunks`, or the window, changes by more than a quarter.
  void set_chunks(uint32_t chunks, uint32_t cyclic_chunks, const AdaptationProgress& now);
  void set_window(uint32_t chunks, const AdaptationProgress& now);
  /// To be called often.
  Step next(const AdaptationProgress& now);
  void on_verdict(const Verdict& verdict);

  std::string_view policy() const { return policy_; }
  /// The policy that policy() replaced; empty if there is none, or if it came back.
  std::string_view former_policy() const { return former_; }
  std::span<const std::string_view> refuted() const { return refuted_; }
  bool is_at_rest() const { return phase_ == Phase::resting; }
  bool is_sampling() const { return phase_ == Phase::sampling || phase_ == Phase::proving; }
  /// How long the engine waited for a touch on average, under the former policy and this one; 0 as
  /// long as that is not known.
  uint64_t former_wait_ns() const { return former_wait_ns_; }
  uint64_t wait_ns() const { return wait_ns_; }

 private:
  enum class Phase {
    resting,   // until enough was read to be judged
    sampling,  // the engine's touches are recorded
    judging,   // the verdict is on its way
    adopting,  // the verdict is there: another policy is better
    settling,  // the window fills with what the new policy wants in it
    proving,   // sampling again
  };

  void begin_anew(const AdaptationProgress& now);
  void rest(const AdaptationProgress& now);
  bool has_rested(const AdaptationProgress& now) const;
  bool is_loading(const AdaptationProgress& now) const;
  bool is_worth_a_look(const AdaptationProgress& now) const;
  bool has_settled(const AdaptationProgress& now) const;
  bool has_lost(const AdaptationProgress& now) const;
  uint64_t sampled_wait_ns(const AdaptationProgress& now) const;
  Step conclude(const AdaptationProgress& now);
  Step go_back(const AdaptationProgress& now);
  uint32_t touches_wanted() const;

  std::string_view policy_;
  std::string_view former_;
  std::vector<std::string_view> refuted_;
  Phase phase_ = Phase::resting;
  AdaptationProgress since_;  // when the phase began
  uint32_t chunks_ = 0;
  uint32_t cyclic_chunks_ = 0;
  uint32_t window_chunks_ = 0;
  uint32_t rest_passes_ = rest_passes_first;
  bool is_verdict_stale_ = false;
  uint64_t sampling_took_ns_ = 0;
  uint64_t sampling_stall_ns_ = 0;
  uint64_t former_wait_ns_ = 0;
  uint64_t wait_ns_ = 0;

  static constexpr uint32_t rest_passes_first = 2;
};

}  // namespace weightpager::shadow
