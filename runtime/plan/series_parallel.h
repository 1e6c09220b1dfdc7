// Finds the best selections, exactly, of a network that is series-parallel or nearly so.
//
// Problem. The number of selections is a product over all layers.
//
// Idea. The cost of a part of a network depends on the rest only by the layouts at its ends. So a
// part is a table: for each pair of layouts, the Pareto front of memory and time. Parts are joined
// until one is left:
//   - an edge, a node with one edge in and one out, an edge: in series, one edge;
//   - two edges between the same nodes: in parallel, one edge;
//   - a node with a single edge (a network's input, or one of its outputs): into its neighbor.
// Networks of chains, Inception modules, residual and dense blocks come down to one node. Pyramids
// that lead up and down again (YOLOv4) do not: one or two of the nodes that are left are then cut.
// A cut fixes the layout of a node's output. Each of the node's readers can then have a source of
// its own in that layout. The front is the best over all layouts that the output may be in. Where
// more than two cuts would be needed, the answer is an error.
//
// Memory counts above the least that each node can do with, rounded up per node to multiples of a
// quantum. With a quantum of 1 all is exact. With q, the selection found is at least as fast as any
// that takes (nodes · q) less, and it never takes more than is said. With more than a thousand
// nodes only some labels of each front are kept, its ends among them: the least memory and the
// fastest selection stay exact, and the points between are good, but not proved best.
//
// Cost. (layouts³ + layouts² · fronts' product) per join: pareto.h. After a cut, the rest is joined
// once for each layout. Which nodes to cut is found by trying: for the two of YOLOv4-P6 that takes
// longer than a reduction, and the result is the same for all limits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/pareto.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

struct Limits {
  /// Candidates that need more are left out.
  uint64_t workspace_bytes_max = UINT64_MAX;
  /// The most bytes that all nodes together may hold.
  uint64_t held_bytes_max = UINT64_MAX;
  uint64_t quantum_bytes = 1;
  /// Once it is over, only the ends of each front are kept: the least memory, and the fastest of
  /// what is left. Not owned; nullptr: no limit.
  const TimeLimit* time = nullptr;
};

/// The result of a reduction: one front, of the whole network.
struct Reduced {
  /// Empty where the limits leave no selection.
  Front front;
  Choices choices;
  size_t nodes = 0;

  std::vector<uint32_t> candidates(const Label& label) const;
};

/// Whether fronts keep all their labels.
bool is_exact(const Instance& instance);

/// The nodes that reduce() has to cut, at most two. Where two are not enough, the error says which
/// nodes are in the way. The nodes depend on edges alone, not on candidates.
Result<std::vector<uint32_t>> cuts_needed(const Instance& instance);

/// `cuts` is the result of cuts_needed().
Reduced reduce(const Instance& instance, std::span<const uint32_t> cuts, const Limits& limits);

}  // namespace weightpager::plan
