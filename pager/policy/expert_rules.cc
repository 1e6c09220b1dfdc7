#include "pager/policy/expert_rules.h"

namespace weightpager::policy {
namespace {

// Long enough to tell frequencies apart (within 4 % of knowing them, simulated).
constexpr uint32_t half_life_passes = 64;
// An expert that was used again while it was kept is worth this many times as much.
constexpr double proven_worth = 1.25;
// By rule: the share of its weight that a use keeps after one more pass. Where three tokens take
// turns and just fit, 0.5 keeps more of their experts; where they do not quite fit, 0.85 does.
// Frequencies age in steps instead.
constexpr std::array<double, 3> kept_per_pass = {1, 0.5, 0.85};
// From this likeness on, what the past did next says more than how often it did it.
constexpr double likeness_min = 0.3;
// The share of its weight that a rule's miss keeps after one more pass: some five passes decide.
constexpr double losses_kept = 0.8;
// A rule that missed less than this share of what the chosen rule missed did not do so by accident.
constexpr double better_share = 0.97;
// Weights stay far below the largest double.
constexpr double weight_max = 0x1p200;

}  // namespace

void ExpertRules::reset(const std::vector<ExpertSize>& experts) {
  experts_.clear();
  experts_.reserve(experts.size());
  for (const ExpertSize& size : experts) {
    experts_.push_back({.size = size});
  }
  for (Play& play : plays_) {
    play.is_kept.assign(experts_.size(), false);
    play.is_proven.assign(experts_.size(), false);
    play.kept_chunks = 0;
    play.missed_chunks = 0;
  }
  best_ = frequency;
  layer_ = 0;
  visit_ = 1;
  uses_ = 0;
  weights_.fill(1);
  passes_since_ageing_ = 0;
}

void ExpertRules::begin_visit(uint32_t layer, bool is_new_pass) {
  layer_ = layer;
  ++visit_;
  if (is_new_pass) begin_pass();
}

// Instead of making all counts smaller, later uses count for more. Frequencies age in steps,
// because experts that are used equally often in a circle must count the same, wherever they stand
// in it.
void ExpertRules::begin_pass() {
  for (Play& play : plays_) play.missed_chunks *= losses_kept;
  if (++passes_since_ageing_ == half_life_passes) {
    passes_since_ageing_ = 0;
    weights_[frequency] *= 2;
  }
  for (size_t rule = 0; rule < counting_rules; ++rule) {
    weights_[rule] /= kept_per_pass[rule];
    if (weights_[rule] < weight_max) continue;
    for (Record& expert : experts_) expert.uses[rule] /= weights_[rule];
    weights_[rule] = 1;
  }
}

void ExpertRules::note_use(uint32_t number) {
  Record& expert = experts_[number];
  expert.visit = visit_;
  expert.last_use = ++uses_;
  for (size_t rule = 0; rule < counting_rules; ++rule) expert.uses[rule] += weights_[rule];
  for (const Rule rule : {frequency, hasty, patient, foresight}) play(rule, number);
  for (const Rule rule : {frequency, hasty, patient, foresight}) {
    const bool is_better = plays_[rule].missed_chunks < better_share * plays_[best_].missed_chunks;
    if (is_better) best_ = rule;
  }
}

void ExpertRules::play(Rule rule, uint32_t number) {
  Play& play = plays_[rule];
  const bool was_kept = play.is_kept[number];
  play.is_proven[number] = was_kept;
  if (was_kept) return;
  const uint32_t chunks = experts_[number].size.chunks;
  play.missed_chunks += chunks;
  if (!make_room(rule, chunks)) return;
  play.is_kept[number] = true;
  play.kept_chunks += chunks;
}

// Returns false if nothing is left but experts in use.
bool ExpertRules::make_room(Rule rule, uint32_t chunks) {
  Play& play = plays_[rule];
  while (play.kept_chunks + chunks > budget_) {
    const auto count = static_cast<uint32_t>(experts_.size());
    uint32_t least = count;
    Rank least_rank;
    for (uint32_t number = 0; number < count; ++number) {
      if (!play.is_kept[number] || experts_[number].visit == visit_) continue;
      const Rank its_rank = rank(rule, number);
      if (least != count && its_rank >= least_rank) continue;
      least = number;
      least_rank = its_rank;
    }
    if (least == count) return false;
    play.is_kept[least] = false;
    play.kept_chunks -= experts_[least].size.chunks;
  }
  return true;
}

ExpertRules::Rank ExpertRules::rank(Rule rule, uint32_t number) const {
  return {worth(rule, number), UINT64_MAX - experts_[number].last_use};
}

double ExpertRules::worth(Rule rule, uint32_t number) const {
  const Record& expert = experts_[number];
  const double uses = expert.uses[rule == foresight ? frequency : rule];
  if (rule == foresight && forecast_.likeness() >= likeness_min) {
    const uint32_t visits = forecast_.visits_until(number);
    // An expert that is not foreseen is worth less than every expert that is. Its worth is its
    // uses, scaled to between 0 and 1.
    const double told = uses / weights_[frequency];
    return visits == ExpertForecast::never ? told / (1 + told) : 1 + 1.0 / visits;
  }
  if (rule == frequency || rule == foresight) {
    return plays_[rule].is_proven[number] ? uses * proven_worth : uses;
  }
  return expert.size.layer > layer_ ? uses : uses * kept_per_pass[rule];
}

}  // namespace weightpager::policy
