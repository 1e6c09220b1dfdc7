// What an engine's order is, a pager learns once: the next one begins with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pager/profiles/access_profile_directory.h"
#include "tests/model/temporary_directory.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t file_bytes = 128 * MiB;

class AccessProfilesTest : public PagerTest {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(mapper()));
    auto record = profiles::AccessProfileRecord::create(scratch_.path("."));
    ASSERT_TRUE(record) << record.error().message;
    record_ = *record;
    for (uint64_t at = 0; at < file_bytes; at += chunk_bytes()) order_.push_back(at);
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(3));
  }

  void start(const std::string& policy) {
    pager_.reset();
    telemetry_ = *telemetry::create("");
    PagerOptions options;
    options.window_bytes = 32 * MiB;
    options.mapper = mapper();
    options.policy = policy;
    options.chunk_bytes = chunk_bytes();
    options.telemetry = telemetry_;
    options.access_profile_directory = scratch_.path(".");
    options.access_profile_record = record_;
    pager_ = started(options);
  }

  /// In an order that the file does not tell. Returns how many touches had to wait for a read.
  uint64_t pass_over(const std::byte* region) {
    const uint64_t before = telemetry_->faults_demand;
    for (const uint64_t at : order_) {
      if (load(region + at + 8) != word_at(at + 8)) ++wrong_words_;
    }
    return telemetry_->faults_demand - before;
  }

  /// A run of so many passes; returns the first one's faults.
  uint64_t run(const PatternFile& file, int passes) {
    std::byte* const region = map(file);
    const uint64_t faults = pass_over(region);
    for (int pass = 1; pass < passes; ++pass) pass_over(region);
    pager_->remove(region, file_bytes);
    return faults;
  }

  /// As `weightpager run` does when the engine has ended.
  void keep() {
    const auto text = record_->text();
    ASSERT_TRUE(text);
    const auto access_profile = profiles::parse_access_profile(*text, "record");
    ASSERT_TRUE(access_profile) << access_profile.error().message;
    scratch_.write(std::filesystem::path(path_of(*access_profile)).filename(), *text);
    path_ = path_of(*access_profile);
  }

  std::string path_of(const profiles::StoredAccessProfile& access_profile) {
    return profiles::access_profile_path(scratch_.path("."), access_profile.chunk_bytes,
                                         access_profile.files);
  }

  model::TemporaryDirectory scratch_;
  profiles::AccessProfileRecord* record_ = nullptr;
  std::vector<uint64_t> order_;
  std::string path_;
  uint64_t wrong_words_ = 0;
};

TEST_P(AccessProfilesTest, TheNextPagerReadsAheadFromTheFirstPassOn) {
  start("learned");
  const PatternFile file(file_bytes);
  EXPECT_EQ(record_->text(), std::nullopt);
  const uint64_t unprofiled = run(file, 6);
  EXPECT_EQ(telemetry_->access_profile_chunks, 0u);
  keep();

  // Whoever adapts begins with it, too.
  for (const char* policy : {"learned", "auto"}) {
    start(policy);
    const uint64_t profiled = run(file, 1);
    EXPECT_EQ(policy::policy_name(telemetry_->policy), "learned") << policy;
    EXPECT_EQ(telemetry_->access_profile_chunks, order_.size());
    EXPECT_LT(4 * profiled, unprofiled) << policy;
  }
  // Who knows no order has no use for it.
  start("lru");
  run(file, 1);
  EXPECT_EQ(telemetry_->access_profile_chunks, 0u);
  EXPECT_EQ(wrong_words_, 0u);
}

TEST_P(AccessProfilesTest, DamagedOnesAndOtherModelsChangeNothing) {
  start("learned");
  const PatternFile file(file_bytes);
  run(file, 6);
  keep();
  start("learned");
  const PatternFile another(file_bytes);
  run(another, 1);
  EXPECT_EQ(telemetry_->access_profile_chunks, 0u);
  std::filesystem::resize_file(path_, 100);
  start("learned");
  run(file, 1);
  EXPECT_EQ(telemetry_->access_profile_chunks, 0u);
  EXPECT_EQ(wrong_words_, 0u);
}

constexpr MapperAndChunk some_mappers[] = {{"move", 2 * MiB}, {"collapse", 2 * MiB}};
INSTANTIATE_TEST_SUITE_P(Mappers, AccessProfilesTest, testing::ValuesIn(some_mappers), name_of);

}  // namespace
}  // namespace weightpager
