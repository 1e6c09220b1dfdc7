// The fronts of computing time against bytes of weights that a joint plan is looked for in: one for
// each cap on the arena (activations and workspace together) and on the largest piece of weights.
//
// Problem. There are thousands of different arenas and pieces. A front for each takes too long.
//
// Idea. Some caps, each the same factor above the one before, and a front only when somebody asks
// for it: it is kept. With a tighter cap a front is nowhere better than with a looser one.
//
// Networks that select.h cannot reduce have one front, some points of it by integer programming.
//
// Cost: some tens of milliseconds for each front; of networks in which nodes have to be cut, four
// times as long for each node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/joint_network.h"

namespace weightpager::plan {

/// No selection's arena and largest piece, cut as small as it goes, take less together than
/// `bytes`; these `candidates` are what may take that, each in less than those before. Where
/// tensors do not fit each other without gaps, or are larger in their layouts, they take more.
struct LeastNeed {
  uint64_t bytes = UINT64_MAX;
  std::vector<std::vector<uint32_t>> candidates;
};

/// Caps have numbers: of arenas the smallest is 0, of pieces the largest, which allows everything.
class JointFronts {
 public:
  /// `network` outlives this.
  static Result<JointFronts> make(const JointNetwork& network, const TimeLimit& limit);

  /// Whether fronts prove anything of selections that are not on them. By integer programming there
  /// are some points only, and out of time not the best ones.
  bool are_whole() const { return cuts_needed_.has_value(); }

  size_t piece_caps() const { return piece_caps_.size(); }
  /// Of caps on the arena, those that a budget allows: at least one.
  size_t arena_caps_within(uint64_t budget_bytes) const;
  /// What a budget leaves for a window, at most: under a cap the arena is larger than the cap
  /// before, or its selections are under that, too.
  uint64_t window_bytes_max(uint64_t budget_bytes, size_t arena_cap) const;

  /// Valid as long as this is.
  const std::vector<JointOption>& front(size_t arena_cap, size_t piece_cap);
  /// The fastest selection without a window, in what a budget leaves beside the least arena; in
  /// memory as coarse as the fronts are many. Nothing if there is none, or it would take long.
  std::optional<JointOption> fastest_alone(SelectionScope strategy, uint64_t budget_bytes,
                                           const TimeLimit& limit) const;

  /// Over all caps, not only those that fronts are made for. Nothing where nodes cannot be cut, or
  /// where time is over before all are looked at.
  LeastNeed least_need(const TimeLimit& limit) const;

  size_t fronts_made() const { return fronts_made_; }

 private:
  explicit JointFronts(const JointNetwork& network) : network_(&network) {}

  void choose_caps();
  Status use_integer_programming(const TimeLimit& limit);
  std::optional<std::vector<uint32_t>> plainest(uint64_t arena_bytes_max,
                                                uint64_t piece_bytes_max) const;
  void forbid_changes(Instance& instance, uint64_t arena_bytes_max) const;

  const JointNetwork* network_;
  std::optional<std::vector<uint32_t>> cuts_needed_;  // nothing: more than reduce() takes
  uint64_t least_arena_bytes_ = 0;
  std::vector<uint64_t> arena_caps_;
  std::vector<uint64_t> piece_caps_;
  std::map<std::pair<size_t, size_t>, std::vector<JointOption>> fronts_;
  size_t fronts_made_ = 0;
};

}  // namespace weightpager::plan
