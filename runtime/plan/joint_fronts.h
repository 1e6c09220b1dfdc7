// The fronts that a joint plan is looked for in: computing time against bytes of weights, one front
// for each cap on the arena (activations and workspace together) and on the largest piece of
// weights.
//
// Problem. There are thousands of different arenas and pieces. A front for each takes too long.
//
// Idea. There are only some caps, each the same factor above the one before. A front is made when
// it is first asked for, and is then kept. With a tighter cap a front is nowhere better than with a
// looser one.
//
// Networks that select.h cannot reduce have one front, with some of its points, by integer
// programming.
//
// Cost: some tens of milliseconds for each front; four times as long for each node that has to be
// cut.
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

/// No selection's arena and largest piece, cut as small as possible, take less together than
/// `bytes`. `candidates` are the selections that may take that little, each less than those before
/// it. A selection takes more where tensors do not fit each other without gaps, or are larger in
/// their layouts.
struct LeastNeed {
  uint64_t bytes = UINT64_MAX;
  std::vector<std::vector<uint32_t>> candidates;
};

/// Caps have numbers: of arenas, 0 is the smallest; of pieces, 0 is the largest, which allows
/// everything.
class JointFronts {
 public:
  /// `network` outlives this.
  static Result<JointFronts> make(const JointNetwork& network, const TimeLimit& limit);

  /// Whether fronts prove anything of selections that are not on them. By integer programming there
  /// are some points only, and out of time not the best ones.
  bool are_whole() const { return cuts_needed_.has_value(); }

  size_t piece_caps() const { return piece_caps_.size(); }
  /// The number of arena caps that a budget allows: at least one.
  size_t arena_caps_within(uint64_t budget_bytes) const;
  /// The most that a budget leaves for a window. Under a cap the arena is larger than the cap
  /// before it; a selection whose arena is not is also under that smaller cap.
  uint64_t window_bytes_max(uint64_t budget_bytes, size_t arena_cap) const;

  /// The reference stays valid as long as this object.
  const std::vector<JointOption>& front(size_t arena_cap, size_t piece_cap);
  /// The fastest selection without a window, in what a budget leaves beside the least arena. The
  /// more nodes have to be cut, the coarser its steps of memory. Nothing if no selection fits, or
  /// if the network cannot be reduced.
  std::optional<JointOption> fastest_alone(SelectionScope strategy, uint64_t budget_bytes,
                                           const TimeLimit& limit) const;

  /// Over all arenas and pieces, not only the caps that fronts are made for. Nothing where the
  /// network cannot be reduced, or where time is over before all are looked at.
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
