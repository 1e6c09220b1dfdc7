// Which policy decides, and when another one takes over.
//
// Now and then touches are recorded for a while: chunks are hidden, so that their next touch is
// seen. A thread of its own plays the record to every policy (shadow/), and the best one takes over
// with what the window holds.
#include <algorithm>
#include <cstring>
#include <utility>

#include "pager/pager.h"

namespace weightpager {

using telemetry::add;
using telemetry::set;

namespace {

// For the policies on paper: a fast disk's, as what is slow about a slow one is its bandwidth.
constexpr uint64_t read_latency_ns = 80'000;
// Chunks that are hidden between two looks at faults, when a sample begins: 1 ms.
constexpr uint32_t hidden_at_once = 64;

}  // namespace

// Where chunks that are shown cannot be hidden again, what the engine touches cannot be seen.
bool Pager::can_adapt() const { return options_.touch_record == nullptr && mapper_->keeps_slot(); }

void Pager::begin_adapting(std::string_view name) {
  adaptation_.emplace(name);
  adapts_.store(true, std::memory_order_relaxed);
  adaptation_->set_window(table_.resident_max(), {});
  if (judge_ == nullptr) judge_ = std::make_unique<shadow::JudgeThread>(options_.judge);
}

void Pager::end_adapting() {
  adaptation_.reset();
  adapts_.store(false, std::memory_order_relaxed);
}

// Carries out what adaptation_ decides.
void Pager::adapt() {
  const auto verdict = judge_->take();
  if (is_verdict_unwanted_) {
    // The judge looks at the sample until then.
    is_verdict_unwanted_ = !verdict.has_value();
    return;
  }
  if (verdict) {
    add(telemetry_.policies_judged, 1);
    adaptation_->on_verdict(*verdict);
  }
  switch (adaptation_->next(progress())) {
    case shadow::Adaptation::Step::none:
      break;
    case shadow::Adaptation::Step::sample:
      begin_sample();
      break;
    case shadow::Adaptation::Step::judge:
      record_ = nullptr;
      ask_judge();
      break;
    case shadow::Adaptation::Step::adopt:
      record_ = nullptr;
      adopt(adaptation_->policy());
      break;
    case shadow::Adaptation::Step::end_sample:
      record_ = nullptr;
      set(telemetry_.wait_ns, adaptation_->wait_ns());
      break;
  }
  for (uint32_t left = hidden_at_once; is_hiding() && left > 0; ++unhidden_) {
    if (take_out_of_sight(unhidden_, false)) --left;
  }
}

// A sample has begun, and some chunks that were shown before have yet to be hidden.
bool Pager::is_hiding() const {
  return record_ != nullptr && record_ == sample_.get() && unhidden_ < table_.chunks();
}

policy::PolicyStatistics Pager::statistics() const {
  policy::PolicyStatistics all = statistics_before_;
  return all += policy_->statistics();
}

shadow::Progress Pager::progress() const {
  const auto touches = record_ == nullptr ? 0 : static_cast<uint32_t>(record_->touches().size());
  return {.now_ns = now_ns_,
          .stall_ns = telemetry_.stall_ns,
          .chunks_read = telemetry_.read_bytes / chunk_bytes_,
          .passes = statistics().passes,
          .touches_sampled = touches};
}

// Without room for a record (address space may be limited) the policy stays as it is.
void Pager::begin_sample() {
  if (sample_ == nullptr) {
    auto created = telemetry::TouchRecord::create_private();
    if (!created) return end_adapting();
    sample_ = std::move(*created);
  }
  sample_->forget_touches();
  std::fill(recorded_.begin(), recorded_.end(), window::no_chunk);
  record_ = sample_.get();
  unhidden_ = 0;
}

// On paper the disk is as fast as it has been so far.
void Pager::ask_judge() {
  uint32_t shown_chunks = 0;
  shadow::Question question{
      .touches = sample_->touches(),
      .chunk_bytes = chunk_bytes_,
      .chunks = table_.chunks(),
      .order = find_order(shown_chunks),
      .situation = {},
      .refuted = {adaptation_->refuted().begin(), adaptation_->refuted().end()}};
  const auto busy_s = static_cast<double>(std::max<uint64_t>(telemetry_.read_busy_ns, 1)) / 1e9;
  question.situation.policy = adaptation_->policy();
  question.situation.window_chunks = table_.resident_max();
  question.situation.disk = {.name = "as measured",
                             .bytes_per_s = static_cast<double>(telemetry_.read_bytes) / busy_s,
                             .latency_ns = read_latency_ns};
  const bool is_asked =
      table_.resident_max() >= simulate::window_chunks_min &&
      judge_->ask(
          std::move(question), [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); },
          &doorbell_);
  if (!is_asked) adaptation_->on_verdict({.best = adaptation_->policy()});
}

// Another one, with what the window holds now.
void Pager::take_over(std::string_view name) {
  statistics_before_ += policy_->statistics();
  make_policy(name);
  policy_->on_time(now_ns_);
  tell_order();
  add(telemetry_.policy_changes, 1);
  set(telemetry_.policy_changed_ns, now_ns_);
}

void Pager::adopt(std::string_view name) {
  take_over(name);
  set(telemetry_.former_wait_ns, adaptation_->former_wait_ns());
  set(telemetry_.wait_ns, adaptation_->wait_ns());
  set(telemetry_.former_policy, policy::policy_number(adaptation_->former_policy()));
}

void Pager::make_policy(std::string_view name) {
  policy_ = policy::make_policy(name, table_, policy_settings_);
  set(telemetry_.policy, policy::policy_number(name));
}

}  // namespace weightpager
