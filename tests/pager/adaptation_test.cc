// An engine that the default policy serves badly gets another one while it runs, and right bytes
// throughout.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <span>
#include <string_view>

#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t adapted_file_bytes = 128 * MiB;

class AdaptationTest : public PagerTest {
 protected:
  /// At any time a part of the file is in use, here and there, and another one later.
  void touch_drifting(const std::byte* region, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i, begin_ += 32 * KiB) {
      const uint64_t at = (begin_ + random_() % (16 * MiB) / 8 * 8) % adapted_file_bytes;
      if (load(region + at) != word_at(at)) ++wrong_words_;
    }
  }

  void pass_over(const std::byte* region) {
    for (uint64_t at = 0; at < adapted_file_bytes; at += os_page_bytes) {
      if (load(region + at) != word_at(at)) ++wrong_words_;
    }
  }

  std::mt19937_64 random_{1};
  uint64_t begin_ = 0;
  uint64_t wrong_words_ = 0;
};

// What the simulator makes of a sample depends on how busy the disk and the processors are
// (tests/shadow knows what it makes of samples that do not).
std::optional<shadow::Verdict> prefer_lru(simulate::Trace /*sample*/,
                                          const simulate::SimulatorOptions& /*situation*/,
                                          std::span<const std::string_view> /*refuted*/) {
  return shadow::Verdict{.best = "lru", .time_ratio = 0.5};
}
std::optional<shadow::Verdict> find_nothing_better(simulate::Trace /*sample*/,
                                                   const simulate::SimulatorOptions& /*situation*/,
                                                   std::span<const std::string_view> /*refuted*/) {
  return shadow::Verdict{.best = policy::default_policy};
}

// Without end if it does not adapt.
TEST_P(AdaptationTest, AnotherPolicyTakesOverWhileTheEngineRuns) {
  judge_ = prefer_lru;
  start(32 * MiB);
  const PatternFile file(adapted_file_bytes);
  std::byte* const region = map(file);
  ASSERT_EQ(policy::policy_name(telemetry_->policy), "expert");
  while (telemetry_->policy_changes == 0) touch_drifting(region, 1000);
  EXPECT_GE(telemetry_->policies_judged, 1u);
  // It proves itself, or the former one comes back; either way bytes are the right ones.
  touch_drifting(region, 5000);
  pass_over(region);
  EXPECT_EQ(wrong_words_, 0u);
  pager_->remove(region, adapted_file_bytes);
}

// Without end if nobody judges.
TEST_P(AdaptationTest, APolicyThatNoOtherBeatsStays) {
  judge_ = find_nothing_better;
  start(32 * MiB);
  const PatternFile file(adapted_file_bytes);
  std::byte* const region = map(file);
  while (telemetry_->policies_judged == 0) touch_drifting(region, 1000);
  for (int pass = 0; pass < 2; ++pass) pass_over(region);
  EXPECT_EQ(policy::policy_name(telemetry_->policy), "expert");
  EXPECT_EQ(telemetry_->policy_changes, 0u);
  EXPECT_EQ(wrong_words_, 0u);
  pager_->remove(region, adapted_file_bytes);
}

TEST_P(AdaptationTest, TheWindowMayChangeMeanwhile) {
  const PatternFile file(adapted_file_bytes);
  std::byte* const region = map(file);
  for (int i = 0; i < 10; ++i) {
    touch_drifting(region, 1000);
    pager_->resize(i % 2 == 0 ? 64 * MiB : 32 * MiB);
    if (i % 5 == 0) pass_over(region);
  }
  EXPECT_EQ(wrong_words_, 0u);
  pager_->remove(region, adapted_file_bytes);
}

// Mapper copy cannot hide what it has shown, and does not adapt.
constexpr MapperAndChunk mappers_that_hide[] = {{"move", 2 * MiB},       {"collapse", 2 * MiB},
                                                {"module", 2 * MiB},     {"move", 128 * KiB},
                                                {"collapse", 128 * KiB}, {"module", 128 * KiB}};
INSTANTIATE_TEST_SUITE_P(Mappers, AdaptationTest, testing::ValuesIn(mappers_that_hide), name_of);

}  // namespace
}  // namespace weightpager
