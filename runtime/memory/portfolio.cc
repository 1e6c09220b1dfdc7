#include "runtime/memory/portfolio.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/memory/bounds.h"
#include "runtime/memory/exact_shared_objects.h"
#include "runtime/memory/minimum_cost_flow.h"
#include "runtime/memory/offsets.h"
#include "runtime/memory/order_search.h"
#include "runtime/memory/shared_objects.h"
#include "runtime/memory/size_improved.h"
#include "runtime/memory/strip_packing.h"

namespace weightpager::memory {
namespace {

/// The pairs of tensors that swaps may look at: 50 ms.
constexpr uint64_t swap_work = 1 << 25;
constexpr uint64_t swap_trials_max = 2000;
/// The numbers that the cases of the exact search may hold: 0.2 s.
constexpr uint64_t exact_work = 1 << 21;

constexpr Ties both_ties[] = {Ties::earlier_first, Ties::later_first};

const char* word(Ties ties) { return ties == Ties::earlier_first ? "earlier" : "later"; }

std::string breadth_words(Ties operation_ties, Ties tensor_ties) {
  return fmt::format("{} operations, {} tensors first", word(operation_ties), word(tensor_ties));
}

// ---- Offsets ----

std::vector<Strategy<OffsetPlan>> make_offset_strategies() {
  std::vector<Strategy<OffsetPlan>> strategies;
  for (const Ties ties : both_ties) {
    strategies.push_back({"greedy by size", fmt::format("{} first", word(ties)),
                          [=](Tensors it, const Earlier<OffsetPlan>& earlier) {
                            return place_in_order(it, by_size(it, ties), earlier);
                          }});
  }
  for (const Ties operation_ties : {Ties::later_first, Ties::earlier_first}) {
    for (const Ties tensor_ties : both_ties) {
      strategies.push_back({"greedy by breadth", breadth_words(operation_ties, tensor_ties),
                            [=](Tensors it, const Earlier<OffsetPlan>& earlier) {
                              return place_in_order(it, by_breadth(it, operation_ties, tensor_ties),
                                                    earlier);
                            }});
    }
  }
  strategies.push_back(
      {"greedy (Lee 2019)", "", [](Tensors it, const Earlier<OffsetPlan>& earlier) {
         return place_in_order(it, by_execution(it), earlier);
       }});
  const std::pair<StripTies, const char*> strip_rules[] = {
      {StripTies::earlier_first, "earlier first"},
      {StripTies::later_first, "later first"},
      {StripTies::larger_first, "larger first"}};
  for (const auto& [ties, words] : strip_rules) {
    strategies.push_back(
        {"strip packing (Sekiyama 2018)", words,
         [ties = ties](Tensors it, const Earlier<OffsetPlan>&) { return pack_strip(it, ties); },
         true});
  }
  return strategies;
}

/// Keeps the smaller plan, and its attempt.
template <typename Choice, typename Plan>
void consider(Choice& choice, Plan plan, uint64_t total_bytes, std::string name, std::string ties) {
  const bool is_better =
      choice.attempts.empty() || total_bytes < choice.attempts[choice.kept].total_bytes;
  if (is_better) {
    choice.plan = std::move(plan);
    choice.kept = choice.attempts.size();
  }
  choice.attempts.push_back({std::move(name), std::move(ties), total_bytes});
}

/// The lowest first. Placed in this order again, tensors hardly move.
Order by_offset(const OffsetPlan& plan) {
  Order order(plan.offset_bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return plan.offset_bytes[left] < plan.offset_bytes[right];
  });
  return order;
}

void try_swaps(Tensors tensors, OffsetsChoice& choice) {
  const uint64_t pairs = std::max<uint64_t>(uint64_t{tensors.size()} * tensors.size(), 1);
  const uint64_t trials_max = std::clamp<uint64_t>(swap_work / pairs, 1, swap_trials_max);
  const std::pair<const char*, Order> beginnings[] = {
      {"greedy by size", by_size(tensors, Ties::earlier_first)},
      {"the best of these", by_offset(choice.plan)}};
  for (const auto& [words, order] : beginnings) {
    if (choice.plan.total_bytes == choice.lower_bound_bytes) return;
    OrderSearch search = place_by_swaps(tensors, order, choice.lower_bound_bytes, trials_max);
    const uint64_t total_bytes = search.plan.total_bytes;
    consider(choice, std::move(search.plan), total_bytes, "swaps",
             fmt::format("from {}, {} trials", words, search.trials));
  }
}

// ---- Shared objects ----

void add_by_size(std::vector<Strategy<SharedObjectsPlan>>& strategies) {
  for (const Fit fit : {Fit::largest, Fit::tightest}) {
    for (const Ties ties : both_ties) {
      strategies.push_back({"greedy by size",
                            fmt::format("{} object, {} first",
                                        fit == Fit::largest ? "largest" : "smallest", word(ties)),
                            [=](Tensors it, const Earlier<SharedObjectsPlan>& earlier) {
                              return share_in_order(it, by_size(it, ties), fit, earlier);
                            }});
    }
  }
}

void add_size_improved(std::vector<Strategy<SharedObjectsPlan>>& strategies) {
  using Unsuited = SizeImprovedRules::Unsuited;
  using Idle = SizeImprovedRules::Idle;
  for (const Unsuited unsuited : {Unsuited::first, Unsuited::last}) {
    for (const Idle idle : {Idle::nearest, Idle::before}) {
      for (const bool larger_first : {false, true}) {
        for (const Ties ties : both_ties) {
          const SizeImprovedRules rules{unsuited, idle, larger_first, ties};
          strategies.push_back({"greedy by size improved",
                                fmt::format("unsuited {}, idle {}, {}{} first",
                                            unsuited == Unsuited::first ? "first" : "last",
                                            idle == Idle::nearest ? "on both sides" : "before",
                                            larger_first ? "larger, then " : "", word(ties)),
                                [=](Tensors it, const Earlier<SharedObjectsPlan>& earlier) {
                                  return share_by_size_improved(it, rules, earlier);
                                }});
        }
      }
    }
  }
}

std::vector<Strategy<SharedObjectsPlan>> make_shared_object_strategies() {
  std::vector<Strategy<SharedObjectsPlan>> strategies;
  add_by_size(strategies);
  add_size_improved(strategies);
  for (const Ties operation_ties : both_ties) {
    for (const Ties tensor_ties : {Ties::later_first, Ties::earlier_first}) {
      strategies.push_back({"greedy by breadth", breadth_words(operation_ties, tensor_ties),
                            [=](Tensors it, const Earlier<SharedObjectsPlan>& earlier) {
                              return share_in_order(it, by_breadth(it, operation_ties, tensor_ties),
                                                    Fit::tightest, earlier);
                            }});
    }
  }
  strategies.push_back(
      {"greedy (Lee 2019)", "", [](Tensors it, const Earlier<SharedObjectsPlan>& earlier) {
         return share_in_order(it, by_execution(it), Fit::nearest, earlier);
       }});
  strategies.push_back(
      {"minimum-cost flow (Lee 2019)", "",
       [](Tensors it, const Earlier<SharedObjectsPlan>&) { return share_by_minimum_cost_flow(it); },
       true});
  return strategies;
}

}  // namespace

const std::vector<Strategy<OffsetPlan>>& offset_strategies() {
  static const auto strategies = make_offset_strategies();
  return strategies;
}

const std::vector<Strategy<SharedObjectsPlan>>& shared_object_strategies() {
  static const auto strategies = make_shared_object_strategies();
  return strategies;
}

OffsetsChoice choose_offsets(Tensors tensors, Effort effort, const TimeLimit& limit) {
  OffsetsChoice choice;
  choice.lower_bound_bytes = offsets_lower_bound_bytes(tensors);
  for (const auto& strategy : offset_strategies()) {
    OffsetPlan plan = strategy.plan(tensors);
    const uint64_t total_bytes = plan.total_bytes;
    consider(choice, std::move(plan), total_bytes, strategy.name, strategy.ties);
    const bool meets_bound = choice.plan.total_bytes == choice.lower_bound_bytes;
    if (meets_bound && effort == Effort::until_bound) return choice;
    if (limit.is_over()) return choice;
  }
  try_swaps(tensors, choice);
  return choice;
}

SharedObjectsChoice choose_shared_objects(Tensors tensors, const TimeLimit& limit) {
  SharedObjectsChoice choice;
  for (const auto& strategy : shared_object_strategies()) {
    SharedObjectsPlan plan = strategy.plan(tensors);
    const uint64_t total_bytes = plan.total_bytes();
    consider(choice, std::move(plan), total_bytes, strategy.name, strategy.ties);
    if (limit.is_over()) break;
  }
  const std::vector<uint64_t> maxima = positional_maxima_bytes(tensors);
  choice.lower_bound_bytes = shared_objects_lower_bound_bytes(tensors);
  choice.proved_lower_bound_bytes = choice.lower_bound_bytes;
  if (limit.is_over()) return choice;
  const uint64_t cases_max = exact_work / std::max<uint64_t>(maxima.size(), 1);
  ExactSharing exact = share_exactly(tensors, choice.plan, cases_max);
  choice.proved_lower_bound_bytes = exact.lower_bound_bytes;
  const uint64_t total_bytes = exact.plan.total_bytes();
  consider(choice, std::move(exact.plan), total_bytes, "exact search",
           fmt::format("{} cases", exact.cases));
  return choice;
}

}  // namespace weightpager::memory
