// Pareto fronts: sets of pairs (memory, time) of which none is better than another in both.
//
// Problem. Two parts of a network have hundreds of good combinations each. Together they have the
// product, of which again some hundreds are good. Sorting the products would take most of a
// planner's time.
//
// Idea. Memory is divided into some thousand buckets. A first walk over all sums notes the least
// time in each bucket; a second keeps only the sums that are faster than everything in lower
// buckets, a small share. Only those are sorted, and the result is exact.
//
// The choices behind a label are a tree of references; nodes are made only for sums that are kept.
//
// Cost. Two walks over the products at about 1 ns each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace weightpager::plan {

/// What a label was made of: a number that Choices knows.
using Origin = uint32_t;
inline constexpr Origin no_origin = UINT32_MAX;

class Choices {
 public:
  Origin of_candidate(uint32_t node, uint32_t candidate);
  /// Joins two origins, one of which may be no_origin.
  Origin of_both(Origin left, Origin right);
  /// Writes the candidate of every node that `origin` comes from.
  void write(Origin origin, std::vector<uint32_t>& candidates) const;

 private:
  struct Record {
    // Two origins; or is_candidate, a node and its candidate.
    uint32_t left = 0;
    uint32_t right = 0;
    bool is_candidate = false;
  };
  std::vector<Record> records_;
};

struct Label {
  uint64_t memory_bytes = 0;
  double time_ns = 0;
  Origin origin = no_origin;
};

/// Memory rises, time falls.
using Front = std::vector<Label>;

/// Sorts by memory, and drops those that another is no worse than in both memory and time.
template <auto memory_bytes, typename Choice>
void keep_best(std::vector<Choice>& choices) {
  std::sort(choices.begin(), choices.end(), [](const Choice& left, const Choice& right) {
    const uint64_t left_bytes = std::invoke(memory_bytes, left);
    const uint64_t right_bytes = std::invoke(memory_bytes, right);
    return left_bytes != right_bytes ? left_bytes < right_bytes : left.time_ns < right.time_ns;
  });
  double least_ns = std::numeric_limits<double>::infinity();
  std::erase_if(choices, [&](const Choice& choice) {
    if (choice.time_ns >= least_ns) return true;
    least_ns = choice.time_ns;
    return false;
  });
}

/// All sums of one label from `left` and one from `right`.
struct Sums {
  const Front* left = nullptr;
  const Front* right = nullptr;
};

/// The most memory and the most labels of a front. Of more labels, evenly spaced ones are kept, the
/// first and the last among them.
struct FrontLimits {
  uint64_t memory_bytes_max = UINT64_MAX;
  size_t labels_max = SIZE_MAX;
};

/// The best of all `sums` together.
Front best_of(std::span<const Sums> sums, const FrontLimits& limits, Choices& choices);

}  // namespace weightpager::plan
