// A search for selections that may need less memory than the least that is known.
//
// Problem. The needs of a selection's layers, one by one, give only a lower bound of its need:
// tensors may not fit each other without gaps. Many selections may need as little by their layers,
// and one of them may be the only one whose tensors fit.
//
// Idea. Nodes are given candidates in their order. As soon as the nodes with a candidate need too
// much together, whatever the others get, the next candidate is tried. Among candidates with the
// same layouts, those that need no less of anything than another one are left out.
//
// Cost. Exponential where much of the network has room to spare. So the search ends after so many
// steps and selections, and says that it did. Large networks get fewer selections, since laying out
// theirs takes longer.
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

  /// The next selection that may need less than `needs_less_than_bytes`. Nothing if there is no
  /// further one, or if the search ended at its limits.
  std::optional<std::vector<uint32_t>> next(uint64_t needs_less_than_bytes);
  bool has_seen_all() const { return has_seen_all_; }

 private:
  // The need of the first nodes together.
  struct Need {
    uint64_t arena_bytes = 0;
    uint64_t piece_bytes = 0;

    uint64_t bytes() const { return arena_bytes + piece_bytes; }
  };

  std::vector<uint32_t> worth_trying(uint32_t node) const;
  Need with(const Need& before, uint32_t node) const;

  const JointNetwork& network_;
  std::vector<std::vector<uint32_t>> worth_trying_;  // by node: numbers of candidates
  std::vector<std::vector<const Edge*>> edges_in_;   // by node
  std::vector<size_t> tried_;                        // by node, into worth_trying_
  std::vector<uint32_t> chosen_;                     // of the first nodes
  std::vector<Need> needs_;                          // before each of these nodes and at the end
  size_t steps_left_;
  size_t selections_left_;
  bool has_seen_all_ = false;
};

}  // namespace weightpager::plan
