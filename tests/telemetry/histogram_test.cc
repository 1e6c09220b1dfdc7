// Histograms against the sorted values that they stand for.
#include "pager/telemetry/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace weightpager::telemetry {
namespace {

using Scale = HistogramScale;

/// Values of all magnitudes alike.
rc::Gen<uint64_t> duration() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 46), rc::gen::arbitrary<uint64_t>()),
                      [](const auto& it) { return it.second >> (63 - it.first); });
}

TEST(HistogramScale, BucketsFollowEachOtherWithoutAGap) {
  for (uint32_t bucket = 0; bucket < Scale::buckets; ++bucket) {
    const uint64_t begin = Scale::begin_of(bucket);
    const uint64_t end = Scale::begin_of(bucket + 1);
    ASSERT_LT(begin, end);
    ASSERT_EQ(Scale::bucket_of(begin), bucket);
    ASSERT_EQ(Scale::bucket_of(end - 1), bucket);
    ASSERT_LE((end - begin) * Scale::steps, std::max<uint64_t>(begin, Scale::steps));
  }
  EXPECT_EQ(Scale::bucket_of(UINT64_MAX), Scale::buckets - 1);
  EXPECT_GE(Scale::begin_of(Scale::buckets), uint64_t{30} * 60 * 1'000'000'000);
}

RC_GTEST_PROP(HistogramProperty, QuantilesAreThoseOfTheSortedValues, ()) {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<uint64_t>>(duration()));
  const double share = *rc::gen::inRange(0, 1001) / 1000.0;
  Histogram histogram;
  uint64_t sum = 0;
  for (const uint64_t value : values) {
    histogram.add(value);
    sum += value;
  }
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const uint64_t exact = values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  const Distribution counts = histogram.distribution();
  RC_ASSERT(counts.count() == values.size());
  RC_ASSERT(histogram.sum() == sum);
  RC_ASSERT(counts.quantile_bucket(share) == Scale::bucket_of(exact));
}

RC_GTEST_PROP(HistogramProperty, MergingIsCountingTogether, ()) {
  const auto some = *rc::gen::container<std::vector<uint64_t>>(duration());
  const auto others = *rc::gen::container<std::vector<uint64_t>>(duration());
  Distribution one, other, both;
  for (const uint64_t value : some) {
    one.add(value);
    both.add(value);
  }
  for (const uint64_t value : others) {
    other.add(value);
    both.add(value);
  }
  one.merge(other);
  const Distribution rest = one.since(other);
  for (uint32_t bucket = 0; bucket < Scale::buckets; ++bucket) {
    RC_ASSERT(one.count_in(bucket) == both.count_in(bucket));
    RC_ASSERT(rest.count_in(bucket) == both.count_in(bucket) - other.count_in(bucket));
  }
}

TEST(Histogram, OfNothingHasNoQuantiles) {
  EXPECT_EQ(Histogram().distribution().count(), 0u);
  EXPECT_EQ(Histogram().distribution().quantile(0.5), 0u);
}

}  // namespace
}  // namespace weightpager::telemetry
