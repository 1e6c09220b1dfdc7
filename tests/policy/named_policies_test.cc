// The numbers by which live pagers tell their policy.
#include <gtest/gtest.h>

#include <string>

#include "pager/policy/named/make_policy.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::policy {
namespace {

// A pager and a `stat` of another build agree on the version, so they must agree on the numbers.
TEST(NamedPolicies, HaveOneNumberInEachVersionOfTheTelemetry) {
  std::string rows;
  for (const NamedPolicy& it : named_policies()) rows += std::string(it.name) + " ";
  EXPECT_EQ(rows,
            "demand lru readahead next-layer double-buffer ring pin-stream expert learned belady ")
      << "rows moved: raise telemetry_version, then change both expectations";
  EXPECT_EQ(telemetry::telemetry_version, 12u);
}

}  // namespace
}  // namespace weightpager::policy
