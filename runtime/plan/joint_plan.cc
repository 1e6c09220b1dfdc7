#include "runtime/plan/joint_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "pager/base/units.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/joint_bounds.h"
#include "runtime/plan/joint_fronts.h"
#include "runtime/plan/joint_network.h"
#include "runtime/plan/joint_trials.h"
#include "runtime/plan/least_search.h"

namespace weightpager::plan {
namespace {

using network::Network;

// windows_max: the most windows that are planned with few rings and pins. refined_max: the
// selections that are tried again with more. bounds_apart: of two selections in one front whose
// bounds are nearer to each other than this, one is enough.
constexpr size_t windows_max = 160;
constexpr size_t refined_max = 3;
constexpr double bounds_apart = 1.0005;
constexpr pipeline::PlanTrials few_trials = {.ring_ratio = 0.8, .rates_per_octave = 4};

struct Tried {
  const JointOption* option = nullptr;
  JointPlan plan;
};

// The best of the plans tried; these are tried again with finer rings and pins.
class Best {
 public:
  void add(Tried tried) {
    all_.push_back(std::move(tried));
    std::stable_sort(all_.begin(), all_.end(), [](const Tried& left, const Tried& right) {
      return left.plan.delay_ns < right.plan.delay_ns;
    });
    if (all_.size() > refined_max) all_.pop_back();
  }

  const std::vector<Tried>& all() const { return all_; }
  uint64_t delay_ns() const { return all_.empty() ? UINT64_MAX : all_.front().plan.delay_ns; }
  /// The largest delay with which a plan would still be among the best.
  uint64_t delay_ns_max() const {
    return all_.size() < refined_max ? UINT64_MAX : all_.back().plan.delay_ns;
  }

 private:
  std::vector<Tried> all_;
};

}  // namespace

class JointPlanner::Implementation {
 public:
  static Result<std::unique_ptr<Implementation>> make(const Network& network,
                                                      const Profile& profile,
                                                      const JointSettings& settings,
                                                      const TimeLimit& limit) {
    auto joint = std::make_unique<JointNetwork>(network, profile, settings);
    auto fronts = JointFronts::make(*joint, limit);
    if (!fronts) return forward_error(std::move(fronts));
    auto fastest = fastest_ignoring_memory(joint->instance());
    if (!fastest) return forward_error(std::move(fastest));
    return std::unique_ptr<Implementation>(new Implementation(
        std::move(joint), std::move(*fronts), std::move(fastest->candidates), limit));
  }

  uint64_t least_bytes() const { return least_bytes_; }
  uint64_t least_bound_bytes() const { return least_bound_bytes_; }
  uint64_t most_bytes() const { return most_bytes_; }
  const std::string& forced_by() const { return forced_by_; }
  PlanningWork work() const { return {fronts_.fronts_made(), trials_.windows_tried()}; }

  Result<JointPlan> plan(uint64_t budget_bytes, const TimeLimit& limit) {
    if (budget_bytes < least_bytes_) return tl::make_unexpected(too_small(budget_bytes));
    Best best;
    const auto consider = [&](const JointOption& option, const pipeline::PlanTrials& trials) {
      auto plan = trials_.try_out(option, budget_bytes, trials);
      if (plan) best.add({&option, *std::move(plan)});
    };
    std::set<std::vector<uint32_t>> seen;
    const auto try_roughly = [&](const JointOption& option) {
      if (!seen.insert(option.candidates).second) return;
      pipeline::PlanTrials trials = few_trials;
      trials.delay_ns_max = best.delay_ns_max();
      trials.time = &limit;
      consider(option, trials);
    };
    const auto try_finely = [&](const JointOption& option) {
      consider(option, {.delay_ns_max = best.delay_ns(), .time = &limit});
    };
    const auto if_in_time = [&](const auto& try_out, const JointOption& option) {
      if (!limit.is_over()) try_out(option);
    };
    const std::vector<JointOption> others = one_after_another(budget_bytes, limit);
    try_roughly(least_);
    for (const auto& [candidates, option] : found_before_) if_in_time(try_roughly, option);
    for (const JointOption& it : others) if_in_time(try_roughly, it);
    try_in_order(budget_bytes, best, try_roughly, limit);
    for (const Tried& it : std::vector<Tried>(best.all())) if_in_time(try_finely, *it.option);
    for (const JointOption& it : others) if_in_time(try_finely, it);
    const Tried& found = best.all().front();
    found_before_.try_emplace(found.option->candidates, *found.option);
    JointPlan plan = found.plan;
    plan.is_cut_short = limit.is_over();
    plan.bound_ns = least_delay_ns(budget_bytes, plan.delay_ns, limit);
    return plan;
  }

  std::vector<JointPlan> plans_one_after_another(uint64_t budget_bytes) {
    std::vector<JointPlan> plans;
    uint64_t delay_ns_min = UINT64_MAX;
    for (const JointOption& option : one_after_another(budget_bytes, {})) {
      auto tried = trials_.try_out(option, budget_bytes, {});
      if (!tried) continue;
      delay_ns_min = std::min(delay_ns_min, tried->delay_ns);
      plans.push_back(*std::move(tried));
    }
    if (plans.empty()) return plans;
    const uint64_t bound_ns = least_delay_ns(budget_bytes, delay_ns_min, {});
    for (JointPlan& it : plans) it.bound_ns = bound_ns;
    return plans;
  }

 private:
  Implementation(std::unique_ptr<JointNetwork> network, JointFronts fronts,
                 std::vector<uint32_t> fastest, const TimeLimit& limit)
      : network_(std::move(network)),
        fronts_(std::move(fronts)),
        bounds_(*network_),
        trials_(*network_),
        fastest_(std::move(fastest)) {
    find_ends(limit);
  }

  // An entry of the queue: a selection, or a front that may not be made yet (no option); and the
  // least time that any of its selections takes.
  struct Next {
    double bound_ns = 0;
    const JointOption* option = nullptr;
    size_t arena = 0;
    size_t piece = 0;

    // A heap has the greatest on top: this puts the smallest bound there.
    bool operator<(const Next& other) const { return bound_ns > other.bound_ns; }
  };

  // Tries selections of all fronts in the order of their bounds, until none can be better than the
  // best one found. With a tighter cap a front is nowhere better: the bound of the looser front
  // holds for it, too, and it is made only when its turn comes.
  template <typename TryOut>
  void try_in_order(uint64_t budget_bytes, const Best& best, TryOut try_out,
                    const TimeLimit& limit) {
    if (limit.is_over()) return;
    std::priority_queue<Next> queue;
    const auto add_front = [&](const std::vector<JointOption>& looser, size_t arena, size_t piece) {
      const uint64_t window_bytes = fronts_.window_bytes_max(budget_bytes, arena);
      queue.push({bounds_.least_overlap_ns(looser, window_bytes), nullptr, arena, piece});
    };
    const size_t caps = fronts_.arena_caps_within(budget_bytes);
    for (size_t arena = 0; arena < caps; ++arena) add_front(fronts_.front(caps - 1, 0), arena, 0);
    const size_t windows_end = trials_.windows_tried() + windows_max;
    while (!queue.empty() && trials_.windows_tried() < windows_end && !limit.is_over()) {
      const Next next = queue.top();
      queue.pop();
      if (next.bound_ns >= static_cast<double>(best.delay_ns())) break;
      if (next.option != nullptr) {
        try_out(*next.option);
        continue;
      }
      const std::vector<JointOption>& options = fronts_.front(next.arena, next.piece);
      const uint64_t window_bytes = fronts_.window_bytes_max(budget_bytes, next.arena);
      for (const Next& it : ranked(options, window_bytes, best.delay_ns())) queue.push(it);
      if (next.piece + 1 < fronts_.piece_caps()) add_front(options, next.arena, next.piece + 1);
    }
  }

  // The options that may be faster than `delay_ns_max`, the smallest bound first.
  std::vector<Next> ranked(const std::vector<JointOption>& options, uint64_t window_bytes,
                           uint64_t delay_ns_max) const {
    std::vector<Next> ranked;
    for (const JointOption& option : options) {
      if (option.largest_whole_bytes > window_bytes) continue;
      const double bound_ns =
          bounds_.bound_ns(option, window_bytes, static_cast<double>(delay_ns_max));
      if (bound_ns < static_cast<double>(delay_ns_max)) ranked.push_back({bound_ns, &option});
    }
    std::sort(ranked.rbegin(), ranked.rend());
    double last_ns = 0;
    std::erase_if(ranked, [&](const Next& it) {
      if (it.bound_ns < last_ns * bounds_apart) return true;
      last_ns = it.bound_ns;
      return false;
    });
    return ranked;
  }

  // The least delay of any selection, if it is less than `delay_ns`. By overlap: the least bound of
  // all fronts; the first cap on pieces, which is the loosest, is enough. By order: every layer
  // takes the time of its fastest candidate and the bytes of its smallest. Where fronts are not
  // whole, only the bound by order holds.
  uint64_t least_delay_ns(uint64_t budget_bytes, uint64_t delay_ns, const TimeLimit& limit) {
    auto least_ns = fronts_.are_whole() ? static_cast<double>(delay_ns) : 0;
    const size_t caps = fronts_.arena_caps_within(budget_bytes);
    for (size_t arena = caps; arena-- > 0;) {
      const uint64_t window_bytes = fronts_.window_bytes_max(budget_bytes, arena);
      const double looser_ns = bounds_.least_overlap_ns(fronts_.front(caps - 1, 0), window_bytes);
      if (looser_ns >= least_ns) continue;
      // The bound of the looser front holds for this one, too.
      const double here_ns = limit.is_over()
                                 ? looser_ns
                                 : bounds_.least_overlap_ns(fronts_.front(arena, 0), window_bytes);
      least_ns = std::min(least_ns, here_ns);
    }
    const double in_order_ns = bounds_.any_in_order_ns(fronts_.window_bytes_max(budget_bytes, 0));
    return std::min(delay_ns, static_cast<uint64_t>(std::max(least_ns, in_order_ns)));
  }

  std::vector<JointOption> one_after_another(uint64_t budget_bytes, const TimeLimit& limit) const {
    std::vector<JointOption> options = {network_->option_of(network_->in_tiles_everywhere()),
                                        network_->option_of(fastest_)};
    for (const SelectionScope strategy :
         {SelectionScope::whole_network, SelectionScope::layer_by_layer}) {
      if (limit.is_over()) break;
      auto found = fronts_.fastest_alone(strategy, budget_bytes, limit);
      if (found) options.push_back(*std::move(found));
    }
    return options;
  }

  // Finds the least and the most that a budget can usefully be.
  void find_ends(const TimeLimit& limit) {
    const auto need = [&](const std::vector<uint32_t>& candidates) {
      return trials_.arena_of(candidates).bytes +
             trials_.largest_piece(candidates).costs.size_bytes;
    };
    const auto consider = [&](const std::vector<uint32_t>& candidates) {
      const uint64_t bytes = need(candidates);
      if (bytes >= least_bytes_) return;
      least_bytes_ = bytes;
      least_ = network_->option_of(candidates);
    };
    consider(network_->in_tiles_everywhere());
    for (const JointOption& it : fronts_.front(0, fronts_.piece_caps() - 1)) {
      consider(it.candidates);
    }
    const LeastNeed exact = fronts_.least_need(limit);
    for (const std::vector<uint32_t>& it : exact.candidates) consider(it);
    least_bound_bytes_ = exact.candidates.empty() ? 0 : exact.bytes;
    find_what_needs_less(consider);
    most_bytes_ = trials_.arena_of(fastest_).bytes + network_->option_of(fastest_).weight_bytes;
    forced_by_ = what_forces_least();
  }

  // Where the tensors of the selection found do not fit without gaps, those of another one may.
  template <typename Consider>
  void find_what_needs_less(Consider consider) {
    if (least_bound_bytes_ == least_bytes_) return;
    LeastSearch search(*network_);
    while (const auto candidates = search.next(least_bytes_)) consider(*candidates);
    if (search.has_seen_all()) least_bound_bytes_ = least_bytes_;
  }

  Error too_small(uint64_t budget_bytes) const {
    return {fmt::format("a budget of {} is too small: the least is {} ({} bytes{}), of which {}",
                        format_size(budget_bytes), format_size(least_bytes_), least_bytes_,
                        proved(), forced_by_),
            fmt::format("give --budget {}KiB or more, or choose a smaller width and height in the "
                        ".cfg's [net] section",
                        (least_bytes_ + KiB - 1) / KiB)};
  }

  // How far the least budget found may be from the least there is.
  std::string proved() const {
    if (least_bound_bytes_ == least_bytes_) return "";
    if (least_bound_bytes_ == 0) return "; whether there is less is not known";
    return fmt::format("; there is nothing below {} bytes", least_bound_bytes_);
  }

  std::string what_forces_least() {
    const Network& network = network_->network();
    const pipeline::Tile largest = trials_.largest_piece(least_.candidates);
    uint32_t fullest = 0;
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < network.layers.size(); ++i) {
      const uint64_t bytes = network_->chosen(least_.candidates, i).workspace_bytes;
      if (bytes <= most_bytes) continue;
      most_bytes = bytes;
      fullest = i;
    }
    return fmt::format(
        "{} are activations and workspace, most of them while {} runs, and {} the "
        "largest piece of weights, of {}",
        format_size(trials_.arena_of(least_.candidates).bytes),
        network::describe_layer(network, fullest), format_size(largest.costs.size_bytes),
        network::describe_layer(network, largest.layer));
  }

  const std::unique_ptr<JointNetwork> network_;  // the other members refer to it
  JointFronts fronts_;
  const JointBounds bounds_;
  JointTrials trials_;
  const std::vector<uint32_t> fastest_;
  // Selections that were found for other budgets.
  std::map<std::vector<uint32_t>, JointOption> found_before_;
  JointOption least_;
  uint64_t least_bytes_ = UINT64_MAX;
  uint64_t least_bound_bytes_ = 0;
  uint64_t most_bytes_ = 0;
  std::string forced_by_;
};

JointPlanner::JointPlanner(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
JointPlanner::JointPlanner(JointPlanner&&) noexcept = default;
JointPlanner::~JointPlanner() = default;

Result<JointPlanner> JointPlanner::make(const Network& network, const Profile& profile,
                                        const JointSettings& settings, const TimeLimit& limit) {
  auto made = Implementation::make(network, profile, settings, limit);
  if (!made) return forward_error(std::move(made));
  return JointPlanner(*std::move(made));
}

uint64_t JointPlanner::least_bytes() const { return implementation_->least_bytes(); }
uint64_t JointPlanner::least_bound_bytes() const { return implementation_->least_bound_bytes(); }
uint64_t JointPlanner::most_bytes() const { return implementation_->most_bytes(); }
PlanningWork JointPlanner::work() const { return implementation_->work(); }
std::string JointPlanner::forced_by() const { return implementation_->forced_by(); }
Result<JointPlan> JointPlanner::plan(uint64_t budget_bytes, const TimeLimit& limit) {
  return implementation_->plan(budget_bytes, limit);
}
std::vector<JointPlan> JointPlanner::plans_one_after_another(uint64_t budget_bytes) {
  return implementation_->plans_one_after_another(budget_bytes);
}

}  // namespace weightpager::plan
