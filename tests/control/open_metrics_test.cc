// OpenMetrics text, line by line; that it is OpenMetrics its own parser says in
// tests/cli/metrics.sh.
#include "pager/control/open_metrics.h"

#include <gtest/gtest.h>

namespace weightpager::control {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

TEST(OpenMetrics, BucketsHoldWhatIsNoLongerThanTheySay) {
  const auto telemetry = std::make_unique<telemetry::Telemetry>();
  for (const uint64_t ns : {1, 1023, 1024, 2047, 2048}) telemetry->read_latency_ns.add(ns);
  telemetry->read_latency_ns.add(uint64_t{1} << 40);
  const std::string text = open_metrics(*telemetry, {});
  const std::string bucket = "weightpager_read_latency_seconds_bucket";
  EXPECT_TRUE(has_line(text, bucket + "{le=\"0.000001023\"} 2"));
  EXPECT_TRUE(has_line(text, bucket + "{le=\"0.000002047\"} 4"));
  EXPECT_TRUE(has_line(text, bucket + "{le=\"0.000004095\"} 5"));
  EXPECT_TRUE(has_line(text, bucket + "{le=\"34.359738367\"} 5"));
  EXPECT_TRUE(has_line(text, bucket + "{le=\"+Inf\"} 6"));
  EXPECT_TRUE(has_line(text, "weightpager_read_latency_seconds_count 6"));
  EXPECT_TRUE(has_line(text, "weightpager_read_latency_seconds_sum 1099.511633919"));
}

TEST(OpenMetrics, NamesHaveTheirUnitsLast) {
  const auto telemetry = std::make_unique<telemetry::Telemetry>();
  telemetry->stall_ns = 1'500'000'001;
  telemetry->resident_bytes_max = 7;
  telemetry->faults_late = 3;
  const std::string text = open_metrics(*telemetry, {});
  EXPECT_TRUE(has_line(text, "# TYPE weightpager_stall_seconds counter"));
  EXPECT_TRUE(has_line(text, "# UNIT weightpager_stall_seconds seconds"));
  EXPECT_TRUE(has_line(text, "weightpager_stall_seconds_total 1.500000001"));
  EXPECT_TRUE(has_line(text, "weightpager_resident_max_bytes 7"));
  EXPECT_TRUE(has_line(text, "weightpager_faults_total{kind=\"late\"} 3"));
  EXPECT_EQ(text.find("started"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n# EOF\n"));
}

TEST(OpenMetrics, NamesOfLayersAndFilesMayBeAnything) {
  const auto telemetry = std::make_unique<telemetry::Telemetry>();
  const std::string text = open_metrics(*telemetry, {{"a\"b\\c\nd", 12, "x} 1", 5}});
  EXPECT_TRUE(has_line(text,
                       "weightpager_layer_stall_seconds_total{model=\"a\\\"b\\\\c\\nd\","
                       "layer=\"12\",name=\"x} 1\"} 0.000000005"));
}

}  // namespace
}  // namespace weightpager::control
