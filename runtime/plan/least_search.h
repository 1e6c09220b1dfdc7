// Selections that may need less memory than the least that is known, one after the other.
//
// Problem. What a selection's layers need one by one says what it needs at least, not what it
// needs: tensors may not fit each other without gaps, and one selection of many that need as little
// by their layers may be the only one whose tensors do.
//
// Idea. Nodes are given candidates in their order; as soon as those that have one need too much
// together, whatever the others get, the next candidate is tried. Of candidates with the same
// layouts, those that need no less of anything than another are left out.
//
// Cost. Exponential where much of the network has room to spare, so it ends after so many steps and
// selections, and says that it did: large networks are given fewer, since laying them out takes
// longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/joint_network.h"

namespace weightpager::plan {

class LeastSearch {
 public:
  /// `network` outlives this.
  explicit LeastSearch(const JointNetwork& network);

  /// Nothing: there is no further one, or the search has ended before it came to all.
  std::optional<std::vector<uint32_t>> next(uint64_t needs_less_than_bytes);
  bool has_seen_all() const { return has_seen_all_; }

 private:
  // Of the nodes up to one.
  struct Need {
    uint64_t arena_bytes = 0;
    uint64_t piece_bytes = 0;

    uint64_t bytes() const { return arena_bytes + piece_bytes; }
  };

  std::vector<uint32_t> worth_trying(uint32_t node) const;
  Need with(const Need& before, uint32_t node) const;

  const JointNetwork& network_;
  std::vector<std::vector<uint32_t>> worth_trying_;  // by node
  std::vector<std::vector<const Edge*>> edges_in_;   // by node
  std::vector<size_t> tried_;                        // by node, into worth_trying_
  std::vector<uint32_t> chosen_;                     // of the first nodes
  std::vector<Need> needs_;                          // before each of these, and after the last
  size_t steps_left_;
  size_t selections_left_;
  bool has_seen_all_ = false;
};

}  // namespace weightpager::plan
