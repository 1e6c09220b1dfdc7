#include "pager/loop/policy_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pager/base/log.h"
#include "pager/policy/layer_order.h"
#include "pager/profiles/access_profile_directory.h"
#include "pager/profiles/access_profile_record.h"

namespace weightpager {

using policy::ChunkId;
using telemetry::add;
using telemetry::raise_to;
using telemetry::set;

namespace {

// For the policies on paper: a fast disk's, as what is slow about a slow one is its bandwidth.
constexpr uint64_t read_latency_ns = 80'000;
constexpr uint64_t order_interval_ns = 100'000'000;
constexpr uint64_t growing_pause_ns = 200'000'000;

void ring(void* doorbell) { static_cast<fault::Doorbell*>(doorbell)->ring(); }

}  // namespace

PolicyHost::PolicyHost(const PolicyHostParts& parts)
    : options_(parts.options),
      telemetry_(*parts.options.telemetry),
      table_(parts.table),
      files_(parts.files),
      waiters_(parts.waiters),
      recorder_(parts.recorder),
      doorbell_(parts.doorbell) {}

Status PolicyHost::begin(const policy::Settings& settings, bool can_see_touches) {
  if (auto known = policy::check_policy(options_.policy, true); !known) return known;
  settings_ = settings;
  can_see_touches_ = can_see_touches;
  const bool is_adaptive = options_.policy == policy::adaptive_policy;
  make_policy(is_adaptive ? policy::default_policy : std::string_view(options_.policy));
  if (is_adaptive && can_adapt()) begin_adapting(policy::default_policy);
  return {};
}

void PolicyHost::make_policy(std::string_view name) {
  policy_ = policy::make_policy(name, table_, settings_);
  set(telemetry_.policy, policy::policy_number(name));
}

policy::PolicyStatistics PolicyHost::statistics() const {
  policy::PolicyStatistics all = former_statistics_;
  return all += policy_->statistics();
}

void PolicyHost::set_time(uint64_t now_ns) { now_ns_ = now_ns; }

// ---- What the policy is told ----

// Of the chunks that somebody can touch now; also says how many these are.
policy::ChunkOrder PolicyHost::find_order(uint32_t& shown_chunks) const {
  policy::ChunkOrder order;
  order.is_of_file.resize(table_.chunks());
  for (const auto& served : files_.files()) {
    std::fill_n(order.is_of_file.begin() + served->first_chunk, served->chunks,
                !served->is_spilled());
    policy::append_chunk_order(served->layers->model(), 0,
                               {served->first_chunk, served->chunks, 0, options_.chunk_bytes},
                               order);
  }
  std::vector<bool> is_shown(table_.chunks());
  shown_chunks = 0;
  for (const auto& served : files_.files()) {
    if (!served->is_kept) continue;
    std::fill_n(is_shown.begin() + served->first_chunk, served->chunks, true);
    shown_chunks += served->chunks;
  }
  for (const auto& [region, served] : files_.regions()) {
    for (uint32_t i = 0; i < region->chunks(); ++i) {
      if (!region->is_live(i)) continue;
      // What was never touched need not be read ahead.
      if (served->is_spilled() && !served->spilled->is_in_use(i)) continue;
      const ChunkId chunk = served->chunk_of(*region, i);
      shown_chunks += is_shown[chunk] ? 0 : 1;
      is_shown[chunk] = true;
    }
  }
  order.kept = pinned_;
  order.access_profile = access_profile();
  policy::erase_chunks(order, [&](ChunkId chunk) { return !is_shown[chunk]; });
  return order;
}

void PolicyHost::tell(bool is_load_over) {
  is_order_stale_ = false;
  order_grew_ns_ = 0;
  order_told_ns_ = now_ns_;
  uint32_t shown_chunks = 0;
  policy::ChunkOrder order = find_order(shown_chunks);
  order.is_load_over = is_load_over;
  policy_->set_order(order);
  if (adaptation_) {
    // A mixture's policy compares its rules itself (policy/expert_rules.h), and a sample as short
    // as its chunks are many would be of too few tokens to tell more.
    const uint32_t watched_chunks = order.experts.empty() ? shown_chunks : 0;
    adaptation_->set_chunks(watched_chunks, static_cast<uint32_t>(order.cyclic.size()), progress());
  }
  // What was touched and not served yet must not be forgotten with the old order.
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    if (waiters_.are_at(chunk)) policy_->on_touch(chunk, policy::anywhere);
  }
  touches_at_order_ = touches();
  if (shown_chunks == 0) return;
  raise_to(telemetry_.model_bytes, uint64_t{shown_chunks} * options_.chunk_bytes);
  const bool has_earlier_profile = earlier_ && !policy_->access_profile().is_empty();
  if (has_earlier_profile)
    raise_to(telemetry_.access_profile_chunks, order.access_profile.order.size());
}

// What the engine wrote is not read ahead any more; told now and then, not at each write.
void PolicyHost::tell_order_if_stale() {
  const bool has_grown = order_grew_ns_ != 0 && now_ns_ - order_grew_ns_ > growing_pause_ns;
  if (has_grown || (is_order_stale_ && now_ns_ - order_told_ns_ > order_interval_ns))
    tell(has_grown);
}

// At the end an engine unmaps everything, perhaps piece by piece; the report shall say how it was
// before. So an order counts when something of it has been touched.
void PolicyHost::account_parts_of_order() {
  if (touches() != touches_at_order_) account_parts();
}

uint64_t PolicyHost::touches() const {
  return telemetry_.faults_demand.load() + telemetry_.faults_late.load() +
         telemetry_.faults_tripwire.load();
}

void PolicyHost::account_parts() {
  set(telemetry_.ring_bytes, uint64_t{policy_->ring_chunks()} * options_.chunk_bytes);
  set(telemetry_.pinned_bytes, uint64_t{policy_->pinned_chunks()} * options_.chunk_bytes);
}

void PolicyHost::on_window_resized() {
  if (policy_) policy_->on_resized();
  if (adaptation_) adaptation_->set_window(table_.resident_max(), progress());
}

uint32_t PolicyHost::pin(std::span<const ChunkId> chunks) {
  pinned_.clear();
  for (const ChunkId chunk : chunks) {
    if (files_.has_owner(chunk)) pinned_.push_back(chunk);
  }
  tell_order();
  return static_cast<uint32_t>(std::count_if(
      pinned_.begin(), pinned_.end(), [&](ChunkId chunk) { return policy_->is_pinned(chunk); }));
}

// Numbers of files that are gone may become another file's.
void PolicyHost::unpin_unserved() {
  std::erase_if(pinned_, [&](ChunkId chunk) { return !files_.has_owner(chunk); });
}

// ---- What earlier runs learned, and this one ----

// Of the files that are served now. Whoever adapts begins with the policy that can use all of it.
void PolicyHost::find_learned_profile() {
  if (options_.access_profile_directory.empty()) return;
  auto found = profiles::find_access_profile(options_.access_profile_directory,
                                             options_.chunk_bytes, files_.profiled());
  if (!found) return;
  earlier_ = std::move(found);
  const bool is_first = policy::policy_name(telemetry_.policy) == policy::default_policy;
  if (!earlier_->has_pace() || !is_first) return;
  if (!adaptation_ || !adaptation_->is_at_rest()) return;
  make_policy(policy::learning_policy);
  begin_adapting(policy::learning_policy);
}

// What the policy learned itself is worth more than what an earlier run did.
policy::AccessProfile PolicyHost::access_profile() const {
  return earlier_ ? profiles::access_profile_for(*earlier_, files_.numbered())
                  : policy_->access_profile();
}

// Kept at once, should the process end any moment.
void PolicyHost::keep_learned_profile() {
  const uint64_t learned = statistics().profiles_learned;
  if (learned == profiles_learned_) return;
  profiles_learned_ = learned;
  earlier_.reset();
  policy::AccessProfile access_profile = policy_->access_profile();
  const size_t visits = access_profile.order.size();
  erase_spilled(access_profile);
  // Most of what the engine uses is memory of its own. Without that, the order says little.
  if (access_profile.order.size() < visits / 2) return;
  if (options_.access_profile_record == nullptr || access_profile.is_empty()) return;
  const auto kept =
      profiles::stored_access_profile(access_profile, options_.chunk_bytes, files_.numbered());
  if (options_.access_profile_record->put(profiles::access_profile_text(kept))) return;
  notice(
      "the engine's order has more parts than there is room for: it will not be kept for the "
      "next start");
}

// Memory of the engine's own is another one in the next run.
void PolicyHost::erase_spilled(policy::AccessProfile& access_profile) const {
  size_t kept = 0;
  for (size_t i = 0; i < access_profile.order.size(); ++i) {
    if (files_.owner(access_profile.order[i]).is_spilled()) continue;
    access_profile.order[kept] = access_profile.order[i];
    access_profile.computed_ns[kept++] = access_profile.computed_ns[i];
  }
  access_profile.order.resize(kept);
  access_profile.computed_ns.resize(kept);
}

// ---- Which policy it is ----

Status PolicyHost::change_policy(const std::string& name) {
  if (auto known = policy::check_policy(name, true); !known) return known;
  const bool is_adaptive = name == policy::adaptive_policy;
  if (is_adaptive && !can_adapt()) {
    return fail("policy auto: here what the engine touches cannot be seen",
                "with --mapper move or collapse, and without --record, it can");
  }
  // A sample that is under way ends; its verdict, should one be on its way, is nobody's any more.
  recorder_.end_sample();
  is_verdict_unwanted_ = judge_ != nullptr && !judge_->is_idle();
  end_adapting();
  if (is_adaptive) {
    begin_adapting(policy::policy_name(telemetry_.policy));
    tell_order();
  } else if (policy::policy_name(telemetry_.policy) != name) {
    take_over(name);
  }
  return {};
}

void PolicyHost::begin_adapting(std::string_view name) {
  adaptation_.emplace(name);
  adapts_.store(true, std::memory_order_relaxed);
  adaptation_->set_window(table_.resident_max(), {});
  if (judge_ == nullptr) judge_ = std::make_unique<shadow::JudgeThread>(options_.judge);
}

void PolicyHost::end_adapting() {
  adaptation_.reset();
  adapts_.store(false, std::memory_order_relaxed);
}

void PolicyHost::adapt() {
  if (!adaptation_) return;
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
      // Without room for a record (address space may be limited) the policy stays as it is.
      if (!recorder_.begin_sample()) end_adapting();
      break;
    case shadow::Adaptation::Step::judge:
      recorder_.end_sample();
      ask_judge();
      break;
    case shadow::Adaptation::Step::adopt:
      recorder_.end_sample();
      adopt(adaptation_->policy());
      break;
    case shadow::Adaptation::Step::end_sample:
      recorder_.end_sample();
      set(telemetry_.wait_ns, adaptation_->wait_ns());
      break;
  }
}

shadow::AdaptationProgress PolicyHost::progress() const {
  return {.now_ns = now_ns_,
          .stall_ns = telemetry_.stall_ns,
          .chunks_read = telemetry_.read_bytes / options_.chunk_bytes,
          .passes = statistics().passes,
          .is_memory_growing = order_grew_ns_ != 0,
          .touches_sampled = recorder_.touches_recorded()};
}

// On paper the disk is as fast as it has been so far.
void PolicyHost::ask_judge() {
  uint32_t shown_chunks = 0;
  shadow::Question question{
      .touches = recorder_.sample(),
      .chunk_bytes = options_.chunk_bytes,
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
  const bool is_asked = table_.resident_max() >= simulate::window_chunks_min &&
                        judge_->ask(std::move(question), ring, &doorbell_);
  if (!is_asked) adaptation_->on_verdict({.best = adaptation_->policy()});
}

// Another one, with what the window holds now.
void PolicyHost::take_over(std::string_view name) {
  former_statistics_ += policy_->statistics();
  make_policy(name);
  policy_->on_time(now_ns_);
  tell_order();
  add(telemetry_.policy_changes, 1);
  set(telemetry_.policy_changed_ns, now_ns_);
}

void PolicyHost::adopt(std::string_view name) {
  take_over(name);
  set(telemetry_.former_wait_ns, adaptation_->former_wait_ns());
  set(telemetry_.wait_ns, adaptation_->wait_ns());
  set(telemetry_.former_policy, policy::policy_number(adaptation_->former_policy()));
}

}  // namespace weightpager
