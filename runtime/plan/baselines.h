// The simpler planners that selection is compared with.
//
// Greedy, as Wen et al. describe it (5.3.2): start with the fastest network. While the budget is
// exceeded, give the node that needs most the fastest of its candidates that need less. Greedy does
// not look at layouts: that makes it up to eight times slower than the optimum where memory is
// tight.
//
// By time alone, as Anderson & Gregg's partitioned boolean quadratic programming: the fastest
// network, with layouts, whatever memory it takes. Their reductions are exact on series-parallel
// networks, so the result there is the fastest selection there is, one point of the front.
//
// One primitive everywhere, as most frameworks do (the paper's Figures 1, 5a and 5b). Few
// primitives can compute every layer: Winograd's is for 3 × 3 with stride 1. The paper does not say
// what computes the other layers, so a caller gives an order of fall-backs. Layouts are still
// chosen for the least time: a framework, too, has its primitive in the layout that it works in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/time_limit.h"
#include "runtime/plan/selection.h"

namespace weightpager::plan {

/// Goes down from `start` until the budget is met. Fails where no node can do with less any more.
Result<Selection> greedy(const Instance& instance, uint64_t memory_bytes_max,
                         std::vector<uint32_t> start);

/// Fails if the network is not series-parallel and there is no CBC.
Result<Selection> fastest_ignoring_memory(const Instance& instance, const TimeLimit& limit = {});

/// By node and candidate, what kind of primitive it is; "" where a node computes by none.
using PrimitiveKinds = std::vector<std::vector<std::string>>;
using KindSet = std::vector<std::string>;

/// An instance with only some of another one's candidates.
struct FewerCandidates {
  Instance instance;
  /// By node and candidate, its number in the other instance.
  std::vector<std::vector<uint32_t>> numbers;
};

/// Each node keeps its candidates of the first of the `preferred` sets that it has any of. A node
/// that has none of these kinds keeps all.
FewerCandidates keep_kinds(const Instance& instance, const PrimitiveKinds& kinds,
                           std::span<const KindSet> preferred);

struct OnePrimitive {
  Selection selection;
  /// How many nodes the primitive computes, and how many one of the fall-backs does. Nodes without
  /// any kind are in neither.
  uint32_t nodes_by_it = 0;
  uint32_t nodes_by_others = 0;
};

/// `primitive` in all nodes that have it, and in the others the first of `fall_backs` that they
/// have; of several such candidates those with which the network is fastest. Fails as
/// fastest_ignoring_memory().
Result<OnePrimitive> one_primitive_everywhere(const Instance& instance, const PrimitiveKinds& kinds,
                                              const std::string& primitive,
                                              std::span<const std::string> fall_backs,
                                              const TimeLimit& limit = {});

}  // namespace weightpager::plan
