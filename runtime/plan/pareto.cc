#include "runtime/plan/pareto.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "pager/base/assert.h"

namespace weightpager::plan {
namespace {

constexpr double infinite_ns = std::numeric_limits<double>::infinity();
// The least times of so many buckets fit the first-level cache.
constexpr int bucket_bits = 12;

// A sum that may be good.
struct Sum {
  uint64_t memory_bytes = 0;
  double time_ns = 0;
  Origin left = no_origin;
  Origin right = no_origin;
};

template <typename Visit>
void visit(std::span<const Sums> sums, uint64_t memory_bytes_max, Visit each) {
  for (const Sums& it : sums) {
    for (const Label& right : *it.right) {
      if (right.memory_bytes > memory_bytes_max) break;
      const uint64_t left_max = memory_bytes_max - right.memory_bytes;
      for (const Label& left : *it.left) {
        if (left.memory_bytes > left_max) break;
        each(left, right);
      }
    }
  }
}

// The range of memory that sums can have; first > second if there are none.
std::pair<uint64_t, uint64_t> range_of(std::span<const Sums> sums, uint64_t memory_bytes_max) {
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (const Sums& it : sums) {
    if (it.left->empty() || it.right->empty()) continue;
    least = std::min(least, it.left->front().memory_bytes + it.right->front().memory_bytes);
    most = std::max(most, it.left->back().memory_bytes + it.right->back().memory_bytes);
  }
  return {least, std::min(most, memory_bytes_max)};
}

class Buckets {
 public:
  Buckets(uint64_t least_bytes, uint64_t most_bytes)
      : least_bytes_(least_bytes),
        shift_(
            std::max(0, static_cast<int>(std::bit_width(most_bytes - least_bytes)) - bucket_bits)),
        least_ns_(((most_bytes - least_bytes) >> shift_) + 1, infinite_ns) {}

  void note(uint64_t memory_bytes, double time_ns) {
    double& least = least_ns_[(memory_bytes - least_bytes_) >> shift_];
    least = std::min(least, time_ns);
  }
  // After the last note(): for each bucket the least of all lower ones.
  void accumulate() {
    double least = infinite_ns;
    for (double& it : least_ns_) {
      const double below = least;
      least = std::min(least, it);
      it = below;
    }
  }
  bool may_be_best(uint64_t memory_bytes, double time_ns) const {
    return time_ns < least_ns_[(memory_bytes - least_bytes_) >> shift_];
  }

 private:
  uint64_t least_bytes_;
  int shift_;
  std::vector<double> least_ns_;
};

void thin(std::vector<Sum>& front, size_t labels_max) {
  if (front.size() <= labels_max) return;
  std::vector<Sum> thinned;
  for (size_t i = 0; i < labels_max; ++i) {
    thinned.push_back(front[i * (front.size() - 1) / (labels_max - 1)]);
  }
  front = std::move(thinned);
}

}  // namespace

Origin Choices::of_candidate(uint32_t node, uint32_t candidate) {
  WP_ASSERT(records_.size() < no_origin);
  records_.push_back({node, candidate, true});
  return static_cast<Origin>(records_.size() - 1);
}

Origin Choices::of_both(Origin left, Origin right) {
  if (left == no_origin) return right;
  if (right == no_origin) return left;
  WP_ASSERT(records_.size() < no_origin);
  records_.push_back({left, right, false});
  return static_cast<Origin>(records_.size() - 1);
}

void Choices::write(Origin origin, std::vector<uint32_t>& candidates) const {
  // No recursion: trees are as deep as networks are long.
  std::vector<Origin> left_to_do = {origin};
  while (!left_to_do.empty()) {
    const Origin next = left_to_do.back();
    left_to_do.pop_back();
    if (next == no_origin) continue;
    const Record& record = records_[next];
    if (record.is_candidate) {
      candidates[record.left] = record.right;
      continue;
    }
    left_to_do.push_back(record.left);
    left_to_do.push_back(record.right);
  }
}

Front best_of(std::span<const Sums> sums, const FrontLimits& limits, Choices& choices) {
  const uint64_t memory_bytes_max = limits.memory_bytes_max;
  const auto [least_bytes, most_bytes] = range_of(sums, memory_bytes_max);
  if (least_bytes > most_bytes) return {};
  Buckets buckets(least_bytes, most_bytes);
  visit(sums, memory_bytes_max, [&](const Label& left, const Label& right) {
    buckets.note(left.memory_bytes + right.memory_bytes, left.time_ns + right.time_ns);
  });
  buckets.accumulate();
  std::vector<Sum> good;
  visit(sums, memory_bytes_max, [&](const Label& left, const Label& right) {
    const Sum sum{left.memory_bytes + right.memory_bytes, left.time_ns + right.time_ns, left.origin,
                  right.origin};
    if (buckets.may_be_best(sum.memory_bytes, sum.time_ns)) good.push_back(sum);
  });
  keep_best<&Sum::memory_bytes>(good);
  thin(good, limits.labels_max);
  Front best;
  for (const Sum& sum : good) {
    best.push_back({sum.memory_bytes, sum.time_ns, choices.of_both(sum.left, sum.right)});
  }
  return best;
}

}  // namespace weightpager::plan
