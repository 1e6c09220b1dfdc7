// Which of two experts is worth more memory.
//
// Problem. Within a text, the experts of the last few tokens tell best which ones come next. In a
// long run, where routing has favourites and little else, the count of all uses tells best. A rule
// for one case reads up to half as much again in the other case as the rule made for it, and both
// cases happen, in turns, within one run.
//
// Idea. All rules are played on paper next to the cache, each with the cache's budget and every
// use. What a rule would have had to read is added up, and older reads count for less. The rule
// that would have read least lately says which expert goes. Play on paper reads nothing: each
// expert that a rule would have missed costs a scan of the experts, a few microseconds where a read
// takes milliseconds.
//
// Frequency counts uses; a use counts for half as much after `half_life_passes` passes. An expert
// that was not kept at its last use has to be used again before it counts in full. So where a text
// goes in a circle that does not fit, a part of the circle stays.
// Recency (a hasty and a patient rule) counts uses that fade with each pass over the expert's own
// layer. In the middle of a pass, layers behind the engine have faded once more than layers ahead
// of it. Without that difference (plain least-recently-used) the experts of the layers just ahead
// would go first. Of equals the expert used last goes: layers are swept in a circle, so that expert
// is needed again last.
// Foresight values most the experts that come soonest if the past most like the present
// (expert_forecast.h) comes again. In that case it is Belady's rule. Where nothing is alike,
// foresight goes by frequency.
//
// A pure state machine, part of ExpertCache; allocates only in `reset`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pager/policy/expert_forecast.h"

namespace weightpager::policy {

class ExpertRules {
 public:
  /// An expert's layer, in execution order, and the chunks that the expert takes of the budget.
  struct ExpertSize {
    uint32_t layer = 0;
    uint32_t chunks = 0;
  };

  /// `forecast` outlives the rules, and is told of visits and uses before the rules are.
  explicit ExpertRules(const ExpertForecast& forecast) : forecast_(forecast) {}

  /// Forgets everything.
  void reset(const std::vector<ExpertSize>& experts);
  void set_budget(uint32_t chunks) { budget_ = chunks; }

  /// The engine came to `layer`. `is_new_pass`: a pass has begun with that.
  void begin_visit(uint32_t layer, bool is_new_pass);
  /// The first use of this expert of that layer since then.
  void note_use(uint32_t expert);

  /// Whether `a` has to go before `b`.
  bool is_worth_less(uint32_t a, uint32_t b) const { return rank(best_, a) < rank(best_, b); }
  bool was_used(uint32_t expert) const { return experts_[expert].last_use > 0; }

 private:
  enum Rule : size_t { frequency, hasty, patient, foresight, rule_count };
  /// The rules that count uses, each in its way. Foresight goes by the counts of frequency.
  static constexpr size_t counting_rules = foresight;

  struct Record {
    ExpertSize size;
    std::array<double, counting_rules> uses{};  // weighted by weights_
    uint64_t last_use = 0;                      // by the count of uses; 0: never
    uint64_t visit = 0;                         // the visit in which it was used last
  };
  /// A rule's cache on paper.
  struct Play {
    std::vector<bool> is_kept;    // by expert
    std::vector<bool> is_proven;  // was kept at its last use
    uint64_t kept_chunks = 0;
    double missed_chunks = 0;  // the past counts for less
  };

  /// The expert of the least rank goes first: the one worth least, and of equals the one used last.
  using Rank = std::pair<double, uint64_t>;

  Rank rank(Rule rule, uint32_t expert) const;
  double worth(Rule rule, uint32_t expert) const;
  void play(Rule rule, uint32_t expert);
  bool make_room(Rule rule, uint32_t chunks);
  void begin_pass();

  const ExpertForecast& forecast_;
  std::vector<Record> experts_;
  std::array<Play, rule_count> plays_;
  Rule best_ = frequency;
  uint32_t budget_ = 0;
  uint32_t layer_ = 0;  // where the engine is
  uint64_t visit_ = 0;  // counts the engine's visits to layers
  uint64_t uses_ = 0;
  std::array<double, counting_rules> weights_{};  // what a use counts for
  uint32_t passes_since_ageing_ = 0;
};

}  // namespace weightpager::policy
