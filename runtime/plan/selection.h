// The question of selection, as data: which implementation of every layer to run.
//
// Problem. A convolution can be computed in many ways. Some are fast and need memory beside it
// (unfolded pictures, weights packed four times as large), some need none. Each takes its input and
// gives its output in a layout of its own, and where two layouts differ the tensor must be changed.
//
// Idea. Nodes are layers, each with candidates; edges are tensors, each with what a change of
// layout costs. One candidate per node is to be chosen. This is the model of Wen et al., "TASO:
// Time and Space Optimization for Memory-Constrained DNN Inference" (2020), sections 4.3 to 4.5,
// with two kinds of memory instead of one, so that both of the paper's strategies are one question:
//   - whole network in memory (its equation 13): what a candidate needs counts as held;
//   - a workspace, layer by layer (its equation 15): what a candidate needs counts as workspace;
//   - a runtime that keeps weights and shares one workspace: weights held, the rest workspace.
//
// The paper's equations sum over all pairs of layers; only edges are meant. A layout is changed
// once per edge, also where two edges leave a node and want the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"

namespace weightpager::plan {

/// The most layouts that an instance may have.
inline constexpr uint32_t layouts_max = 16;

/// One way to compute a node.
struct Candidate {
  double time_ns = 0;
  /// Kept as long as the network is there, such as packed weights: the sum over all nodes counts.
  uint64_t held_bytes = 0;
  /// Used while the node runs, and shared by all nodes: the largest of all nodes counts.
  uint64_t workspace_bytes = 0;
  /// Numbers below Instance::layouts.
  uint32_t layout_in = 0;
  uint32_t layout_out = 0;
};

struct Node {
  std::vector<Candidate> candidates;
  /// For messages; a node with "" is called by its number.
  std::string name;
};

/// A tensor from one node to a later one.
struct Edge {
  uint32_t from = 0;
  uint32_t to = 0;
  /// The time of each change of layout: change_ns[from · layouts + to].
  std::vector<double> change_ns;
};

struct Instance {
  uint32_t layouts = 1;
  std::vector<Node> nodes;
  /// At most one edge from one node to another.
  std::vector<Edge> edges;
};

/// A candidate for every node, and their totals.
struct Selection {
  std::vector<uint32_t> candidates;
  double time_ns = 0;
  uint64_t held_bytes = 0;
  uint64_t workspace_bytes = 0;

  uint64_t memory_bytes() const { return held_bytes + workspace_bytes; }
};

/// Fails unless numbers are in range, edges lead to later nodes, each node has candidates, and
/// times are finite and not negative. The other functions here take instances that pass.
Status check(const Instance& instance);

/// `candidates` has one number per node.
Selection evaluate(const Instance& instance, std::span<const uint32_t> candidates);

/// "node 7", or its name.
std::string name_of(const Instance& instance, size_t node);

/// The least memory that any selection takes.
uint64_t least_memory_bytes(const Instance& instance);

/// A selection that takes no more than that, however slow it is.
Selection smallest(const Instance& instance);

}  // namespace weightpager::plan
