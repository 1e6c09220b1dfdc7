// Which of two experts is worth more memory.
//
// Problem. What a text's next tokens use is told best by what its last few tokens used; what a long
// run uses, where routing has favourites and little else, by how often each expert was used in all.
// A rule for the one reads up to half as much again as the other where the other holds, and both
// happen, in turns, within one run.
//
// Idea. Rules are played on paper next to the cache, each with the cache's budget and every use,
// and what each would have had to read is added up, the past counting for less. Whichever would
// have read least lately says who goes. On paper nothing is read: it costs a scan of the
// experts for each that a rule would have missed, a few microseconds where a read takes
// milliseconds.
//
// Frequency: uses, which count for half as much after `half_life_passes` passes. An expert that was
// not there at its last use has to be used again before it counts in full: of a text that goes in a
// circle longer than what fits, a part then stays.
// Recency (a hasty and a patient rule): uses, which fade with each pass over the expert's own
// layer. At a given moment the layers behind the engine had this pass and those ahead of it did
// not; without that difference (plain least-recently-used) the experts of the layers just ahead
// would go first. Of equals the one used last goes: layers are swept in a circle, so it is needed
// again last.
// Foresight: what the past that is most like the present (expert_forecast.h) uses soonest is worth
// most, which is what Belady's rule would say if it came again. Where nothing is alike, frequency.
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
  /// Of an expert: its layer, in execution order, and what it takes of the budget.
  struct ExpertSize {
    uint32_t layer = 0;
    uint32_t chunks = 0;
  };

  /// `forecast` outlives the rules, and is told of visits and uses before they are.
  explicit ExpertRules(const ExpertForecast& forecast) : forecast_(forecast) {}

  /// Forgets everything.
  void reset(const std::vector<ExpertSize>& experts);
  void set_budget(uint32_t chunks) { budget_ = chunks; }

  /// The engine came to a layer; whether a pass has begun with that.
  void begin_visit(uint32_t layer, bool is_new_pass);
  /// First use of an expert of that layer since then.
  void note_use(uint32_t expert);

  /// Whether `a` has to go before `b`.
  bool is_worth_less(uint32_t a, uint32_t b) const { return rank(best_, a) < rank(best_, b); }
  bool was_used(uint32_t expert) const { return experts_[expert].last_use > 0; }

 private:
  enum Rule : size_t { frequency, hasty, patient, foresight, rule_count };
  /// Those that count uses, each in its way; foresight goes by frequency's.
  static constexpr size_t counting_rules = foresight;

  struct Record {
    ExpertSize size;
    std::array<double, counting_rules> uses{};  // weighted by weights_
    uint64_t last_use = 0;                      // by the count of uses; 0: never
    uint64_t visit = 0;                         // in which it was used last
  };
  /// A rule's cache on paper.
  struct Play {
    std::vector<bool> is_kept;    // by expert
    std::vector<bool> is_proven;  // was kept at its last use
    uint64_t kept_chunks = 0;
    double missed_chunks = 0;  // the past counts for less
  };

  /// The least goes first: worth, and of equals the one used last.
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
  uint64_t visit_ = 0;  // counts the layers that it came to
  uint64_t uses_ = 0;
  std::array<double, counting_rules> weights_{};  // what a use counts for
  uint32_t passes_since_ageing_ = 0;
};

}  // namespace weightpager::policy
