#include "pager/shadow/adaptation.h"

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/telemetry/touch_record.h"

namespace weightpager::shadow {
namespace {

// Where the engine stalls less than this, there is little to win.
constexpr double stall_share_min = 0.1;
// A pass may read this share more than the least that is possible; that is no reason to look for
// another policy.
constexpr double reads_excess_max = 0.1;
constexpr uint32_t passes_sampled = 3;
constexpr uint32_t touches_min = 256;
constexpr uint32_t rest_passes_max = 1u << 20;
// An engine that has read all its chunks so often does more than to load.
constexpr uint32_t loading_passes_max = 8;

bool differs(uint32_t before, uint32_t now) {
  return before > now + now / 4 || now > before + before / 4;
}

}  // namespace

void Adaptation::set_chunks(uint32_t chunks, uint32_t cyclic_chunks,
                            const AdaptationProgress& now) {
  cyclic_chunks_ = cyclic_chunks;
  if (!differs(chunks_, chunks)) return;
  chunks_ = chunks;
  begin_anew(now);
}

void Adaptation::set_window(uint32_t chunks, const AdaptationProgress& now) {
  if (!differs(window_chunks_, chunks)) return;
  window_chunks_ = chunks;
  begin_anew(now);
}

void Adaptation::begin_anew(const AdaptationProgress& now) {
  refuted_.clear();
  rest_passes_ = rest_passes_first;
  if (phase_ == Phase::judging) {
    is_verdict_stale_ = true;
  } else if (phase_ == Phase::resting) {
    since_ = now;
  }
}

Adaptation::Step Adaptation::next(const AdaptationProgress& now) {
  switch (phase_) {
    case Phase::resting:
      if (!has_rested(now)) return Step::none;
      if (is_loading(now) || !is_worth_a_look(now)) {
        since_ = now;
        return Step::none;
      }
      phase_ = Phase::sampling;
      since_ = now;
      return Step::sample;
    case Phase::sampling:
      if (now.touches_sampled < touches_wanted()) return Step::none;
      sampling_took_ns_ = now.now_ns - since_.now_ns;
      sampling_stall_ns_ = now.stall_ns - since_.stall_ns;
      wait_ns_ = sampled_wait_ns(now);
      phase_ = Phase::judging;
      since_ = now;
      return Step::judge;
    case Phase::judging:
      return Step::none;
    case Phase::adopting:
      phase_ = Phase::settling;
      since_ = now;
      return Step::adopt;
    case Phase::settling:
      if (!has_settled(now)) return Step::none;
      phase_ = Phase::proving;
      since_ = now;
      return Step::sample;
    case Phase::proving:
      if (has_lost(now)) return go_back(now);
      return now.touches_sampled < touches_wanted() ? Step::none : conclude(now);
  }
  return Step::none;
}

void Adaptation::on_verdict(const Verdict& verdict) {
  WP_ASSERT(phase_ == Phase::judging);
  const bool is_stale = std::exchange(is_verdict_stale_, false);
  if (is_stale || verdict.best == policy_) return rest(since_);
  former_ = std::exchange(policy_, verdict.best);
  former_wait_ns_ = std::exchange(wait_ns_, 0);
  phase_ = Phase::adopting;
}

// Does the new policy do in earnest what it did on paper?
Adaptation::Step Adaptation::conclude(const AdaptationProgress& now) {
  wait_ns_ = sampled_wait_ns(now);
  if (wait_ns_ >= former_wait_ns_) return go_back(now);
  rest(now);
  return Step::end_sample;
}

Adaptation::Step Adaptation::go_back(const AdaptationProgress& now) {
  rest(now);
  refuted_.push_back(policy_);
  policy_ = std::exchange(former_, {});
  wait_ns_ = std::exchange(former_wait_ns_, 0);
  return Step::adopt;
}

void Adaptation::rest(const AdaptationProgress& now) {
  phase_ = Phase::resting;
  since_ = now;
  rest_passes_ = std::min(2 * rest_passes_, rest_passes_max);
}

bool Adaptation::has_rested(const AdaptationProgress& now) const {
  const uint64_t chunks_read = now.chunks_read - since_.chunks_read;
  return chunks_ > 0 && chunks_read >= uint64_t{chunks_} * rest_passes_;
}

bool Adaptation::is_loading(const AdaptationProgress& now) const {
  return now.is_memory_growing && now.chunks_read < uint64_t{chunks_} * loading_passes_max;
}

// A cyclic engine needs the chunks that do not fit at each pass, whatever the policy.
bool Adaptation::is_worth_a_look(const AdaptationProgress& now) const {
  const auto elapsed_ns = static_cast<double>(now.now_ns - since_.now_ns);
  if (static_cast<double>(now.stall_ns - since_.stall_ns) < stall_share_min * elapsed_ns) {
    return false;
  }
  const auto reads = static_cast<double>(now.chunks_read - since_.chunks_read);
  const uint64_t passes = now.passes - since_.passes;
  const uint32_t least = cyclic_chunks_ - std::min(cyclic_chunks_, window_chunks_);
  return reads > static_cast<double>(passes * least) * (1 + reads_excess_max);
}

// Time counts, too, because a policy that reads little may take long to read `chunks_` chunks.
bool Adaptation::has_settled(const AdaptationProgress& now) const {
  return now.chunks_read - since_.chunks_read >= chunks_ ||
         now.now_ns - since_.now_ns >= 2 * sampling_took_ns_;
}

// As many touches as were sampled before may take long to come, if each waits for longer.
bool Adaptation::has_lost(const AdaptationProgress& now) const {
  return now.touches_sampled > 0 && now.stall_ns - since_.stall_ns > sampling_stall_ns_;
}

uint64_t Adaptation::sampled_wait_ns(const AdaptationProgress& now) const {
  return (now.stall_ns - since_.stall_ns) / now.touches_sampled;
}

uint32_t Adaptation::touches_wanted() const {
  return std::clamp<uint32_t>(std::min(chunks_, UINT32_MAX / passes_sampled) * passes_sampled,
                              touches_min, telemetry::TouchRecord::touches_max);
}

}  // namespace weightpager::shadow
