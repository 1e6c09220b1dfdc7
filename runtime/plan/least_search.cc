#include "runtime/plan/least_search.h"

#include <algorithm>

namespace weightpager::plan {
namespace {

// These limits take some 10 ms each: a step takes 50 ns, and laying out a selection takes some 20
// ns for each pair of layers (2 processors of an AMD EPYC virtual machine, 2026-11-27).
constexpr size_t steps_max = 200'000;
constexpr size_t pairs_of_layers_max = 500'000;

}  // namespace

LeastSearch::LeastSearch(const JointNetwork& network)
    : network_(network),
      edges_in_(network.instance().nodes.size()),
      chosen_(network.instance().nodes.size()),
      steps_left_(steps_max),
      selections_left_(
          std::max<size_t>(pairs_of_layers_max / (chosen_.size() * chosen_.size()), 1)) {
  const Instance& instance = network_.instance();
  for (const Edge& edge : instance.edges) edges_in_[edge.to].push_back(&edge);
  Need least;
  for (uint32_t node = 0; node < instance.nodes.size(); ++node) {
    worth_trying_.push_back(worth_trying(node));
    Need here{UINT64_MAX, UINT64_MAX};
    for (const uint32_t c : worth_trying_.back()) {
      here.arena_bytes =
          std::min(here.arena_bytes, instance.nodes[node].candidates[c].workspace_bytes);
      here.piece_bytes = std::min(here.piece_bytes, network_.smallest_piece_bytes(node, c));
    }
    least.arena_bytes = std::max(least.arena_bytes, here.arena_bytes);
    least.piece_bytes = std::max(least.piece_bytes, here.piece_bytes);
  }
  needs_.push_back(least);
  tried_.push_back(0);
}

std::vector<uint32_t> LeastSearch::worth_trying(uint32_t node) const {
  const std::vector<Candidate>& candidates = network_.instance().nodes[node].candidates;
  const auto piece = [&](uint32_t c) { return network_.smallest_piece_bytes(node, c); };
  std::vector<uint32_t> worth;
  for (uint32_t c = 0; c < candidates.size(); ++c) {
    if (candidates[c].time_ns < forbidden_ns) worth.push_back(c);
  }
  std::stable_sort(worth.begin(), worth.end(), [&](uint32_t left, uint32_t right) {
    return candidates[left].workspace_bytes + piece(left) <
           candidates[right].workspace_bytes + piece(right);
  });
  std::vector<uint32_t> kept;
  for (const uint32_t c : worth) {
    const Candidate& it = candidates[c];
    const bool is_beaten = std::ranges::any_of(kept, [&](uint32_t other) {
      const Candidate& that = candidates[other];
      return that.layout_in == it.layout_in && that.layout_out == it.layout_out &&
             that.workspace_bytes <= it.workspace_bytes && piece(other) <= piece(c);
    });
    if (!is_beaten) kept.push_back(c);
  }
  return kept;
}

LeastSearch::Need LeastSearch::with(const Need& before, uint32_t node) const {
  const Instance& instance = network_.instance();
  const Candidate& it = instance.nodes[node].candidates[chosen_[node]];
  uint64_t arena_bytes = it.workspace_bytes;
  for (const Edge* const edge : edges_in_[node]) {
    const Candidate& from = instance.nodes[edge->from].candidates[chosen_[edge->from]];
    if (from.layout_out != it.layout_in) arena_bytes += network_.copy_bytes(*edge, it.layout_in);
  }
  return {std::max(before.arena_bytes, arena_bytes),
          std::max(before.piece_bytes, network_.smallest_piece_bytes(node, chosen_[node]))};
}

std::optional<std::vector<uint32_t>> LeastSearch::next(uint64_t needs_less_than_bytes) {
  while (!tried_.empty()) {
    const size_t node = tried_.size() - 1;
    if (node == chosen_.size() || tried_[node] == worth_trying_[node].size()) {
      tried_.pop_back();
      needs_.pop_back();
      continue;
    }
    if (steps_left_ == 0 || selections_left_ == 0) return std::nullopt;
    --steps_left_;
    chosen_[node] = worth_trying_[node][tried_[node]++];
    const Need need = with(needs_[node], static_cast<uint32_t>(node));
    if (need.bytes() >= needs_less_than_bytes) continue;
    tried_.push_back(0);
    needs_.push_back(need);
    if (node + 1 < chosen_.size()) continue;
    --selections_left_;
    return chosen_;
  }
  has_seen_all_ = true;
  return std::nullopt;
}

}  // namespace weightpager::plan
