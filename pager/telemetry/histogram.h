// How long things took, all of them, in a few KiB.
//
// Problem. An average hides the one fault in a thousand that took 40 ms; keeping every duration
// takes memory and time without end.
//
// Idea. Counts in buckets that grow with what they count: every power of two is divided into 16, so
// that a bucket is at most a sixteenth wider than its lower bound, from nanoseconds to half an
// hour. The writer is one thread and takes no lock; readers copy the counts into a Distribution,
// which can be merged with others and asked for quantiles. Cost: two relaxed stores a duration.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "pager/telemetry/counter.h"

namespace weightpager::telemetry {

/// Which bucket a value is in: the same for all histograms.
struct HistogramScale {
  static constexpr uint32_t steps_log2 = 4;
  static constexpr uint32_t steps = 1u << steps_log2;  // of every power of two
  static constexpr uint32_t value_bits_max = 41;
  static constexpr uint32_t buckets = (value_bits_max - steps_log2 + 1) * steps;

  /// What is longer than the last bucket's values counts as in it.
  static constexpr uint32_t bucket_of(uint64_t value) {
    if (value < steps) return static_cast<uint32_t>(value);
    const auto shift = static_cast<uint32_t>(std::bit_width(value)) - steps_log2 - 1;
    const auto bucket = shift * steps + static_cast<uint32_t>(value >> shift);
    return std::min(bucket, buckets - 1);
  }
  /// The least value of a bucket; of one behind the last, where that ends.
  static constexpr uint64_t begin_of(uint32_t bucket) {
    if (bucket < 2 * steps) return bucket;
    const uint32_t shift = bucket / steps - 1;
    return uint64_t{steps + bucket % steps} << shift;
  }
};

/// Counts as they were at one time. For one thread.
class Distribution {
 public:
  void add(uint64_t value, uint64_t times = 1) {
    counts_[HistogramScale::bucket_of(value)] += times;
  }
  void merge(const Distribution& other) {
    for (uint32_t i = 0; i < HistogramScale::buckets; ++i) counts_[i] += other.counts_[i];
  }
  /// What was counted since `former` was taken of the same histogram.
  Distribution since(const Distribution& former) const {
    Distribution rest = *this;
    for (uint32_t i = 0; i < HistogramScale::buckets; ++i) rest.counts_[i] -= former.counts_[i];
    return rest;
  }

  uint64_t count_in(uint32_t bucket) const { return counts_[bucket]; }
  uint64_t count() const {
    uint64_t all = 0;
    for (const uint64_t it : counts_) all += it;
    return all;
  }
  /// The bucket that holds the value of which `share` (0 to 1) of all values are no greater, as
  /// sorted values have it at index ceil(share · count) − 1. Requires count() > 0.
  uint32_t quantile_bucket(double share) const {
    const uint64_t all = count();
    const double exact = share * static_cast<double>(all);
    auto rank = static_cast<uint64_t>(exact);
    if (static_cast<double>(rank) < exact) ++rank;
    rank = std::clamp<uint64_t>(rank, 1, all);
    uint32_t bucket = 0;
    for (uint64_t below = counts_[0]; below < rank; below += counts_[bucket]) ++bucket;
    return bucket;
  }
  /// The end of that bucket: no value up to the quantile is greater. 0 of nothing.
  uint64_t quantile(double share) const {
    return count() == 0 ? 0 : HistogramScale::begin_of(quantile_bucket(share) + 1) - 1;
  }

 private:
  std::array<uint64_t, HistogramScale::buckets> counts_{};
};

/// Written by one thread at a time, read by any; may lie in shared memory.
class Histogram {
 public:
  void add(uint64_t value) {
    telemetry::add(counts_[HistogramScale::bucket_of(value)], 1);
    telemetry::add(sum_, value);
  }

  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  Distribution distribution() const {
    Distribution it;
    for (uint32_t i = 0; i < HistogramScale::buckets; ++i) {
      const uint64_t count = counts_[i].load(std::memory_order_relaxed);
      if (count > 0) it.add(HistogramScale::begin_of(i), count);
    }
    return it;
  }

 private:
  std::array<Counter, HistogramScale::buckets> counts_{};
  Counter sum_{0};
};

}  // namespace weightpager::telemetry
