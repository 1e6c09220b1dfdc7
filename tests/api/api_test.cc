// The C API as a stranger uses it, through its C++ wrapper where that is shorter.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <weightpager/weightpager.hpp>

#include "pager/control/client.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

TEST(Api, MapsAFileInAWindowAndGivesItBack) {
  WP_SKIP_FOR(lack_of_userfaultfd());
  PatternFile file(90 * MiB);
  auto pager = api::Pager::open(32 * MiB);
  ASSERT_TRUE(pager) << weightpager_error();
  const auto bytes = pager->map(file.path().c_str());
  ASSERT_FALSE(bytes.empty()) << weightpager_error();
  ASSERT_EQ(bytes.size(), file.size_bytes());
  pager->will_need(bytes.subspan(8 * MiB, 4 * MiB));
  for (uint64_t at = 0; at < bytes.size(); at += 4096) {
    ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(&bytes[at]), word_at(at));
  }
  pager->consumed(bytes.subspan(0, 16 * MiB));
  const weightpager_statistics statistics = pager->statistics();
  EXPECT_EQ(statistics.window_bytes, 32 * MiB);
  EXPECT_LE(statistics.resident_bytes_max, 32 * MiB);
  EXPECT_GE(statistics.read_bytes, file.size_bytes());
  EXPECT_TRUE(pager->unmap(bytes));
  EXPECT_FALSE(pager->unmap(bytes));
}

TEST(Api, ClosesWithRegionsStillMapped) {
  WP_SKIP_FOR(lack_of_userfaultfd());
  PatternFile file(40 * MiB);
  auto pager = api::Pager::open(32 * MiB);
  ASSERT_TRUE(pager);
  const auto bytes = pager->map(file.path().c_str());
  ASSERT_FALSE(bytes.empty()) << weightpager_error();
  EXPECT_EQ(*reinterpret_cast<const volatile uint64_t*>(&bytes[8]), word_at(8));
}

TEST(Api, RefusesWithReasons) {
  EXPECT_FALSE(api::Pager::open(MiB));
  EXPECT_NE(std::string(weightpager_error()).find("below the minimum of 32.0 MiB"),
            std::string::npos)
      << weightpager_error();
  EXPECT_FALSE(api::Pager::open(64 * MiB, "teleport"));
  EXPECT_NE(std::string(weightpager_error()).find("teleport"), std::string::npos);
  auto pager = api::Pager::open(64 * MiB);
  ASSERT_TRUE(pager);
  EXPECT_TRUE(pager->map("no-such-file.gguf").empty());
  EXPECT_NE(std::string(weightpager_error()).find("no-such-file.gguf"), std::string::npos);
}

TEST(Api, ReadsFromMirrorsThatAreSound) {
  WP_SKIP_FOR(lack_of_userfaultfd());
  char directory[] = "/tmp/wp-api-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  setenv("XDG_CACHE_HOME", directory, 1);
  PatternFile file(40 * MiB);
  const std::string copy = std::string(directory) + "/" + file.path();
  const char* const mirrors[] = {directory, nullptr};
  const weightpager_options options = {
      .struct_bytes = sizeof options, .window_bytes = 32 * MiB, .mirrors = mirrors};
  weightpager_pager* pager = nullptr;
  ASSERT_EQ(weightpager_open(&options, &pager), 0) << weightpager_error();
  uint64_t length_bytes = 0;
  EXPECT_EQ(weightpager_map(pager, file.path().c_str(), &length_bytes), nullptr);
  EXPECT_NE(std::string(weightpager_error()).find("has no copy of"), std::string::npos);
  std::filesystem::copy_file(file.path(), copy);
  const void* const bytes = weightpager_map(pager, file.path().c_str(), &length_bytes);
  ASSERT_NE(bytes, nullptr) << weightpager_error();
  for (uint64_t at = 0; at < length_bytes; at += 4096) {
    ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(static_cast<const char*>(bytes) + at),
              word_at(at));
  }
  weightpager_close(pager);
  std::filesystem::remove_all(directory);
}

TEST(Api, ListensWhereItIsAskedTo) {
#ifdef __SANITIZE_THREAD__
  WP_SKIP_FOR("ThreadSanitizer takes descriptors of two tables for one if their numbers are one");
#endif
  WP_SKIP_FOR(lack_of_userfaultfd());
  char directory[] = "/tmp/wp-api-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  setenv("XDG_RUNTIME_DIR", directory, 1);
  PatternFile file(40 * MiB);
  const auto silent = api::Pager::open(32 * MiB);
  ASSERT_TRUE(silent);
  // One after the other: what the first left would be in the second's way.
  for (int round = 0; round < 2; ++round) {
    auto pager = api::Pager::open(32 * MiB, nullptr, true);
    ASSERT_TRUE(pager) << weightpager_error();
    EXPECT_FALSE(api::Pager::open(32 * MiB, nullptr, true));
    EXPECT_NE(std::string(weightpager_error()).find("another pager of this process listens"),
              std::string::npos);
    const auto bytes = pager->map(file.path().c_str());
    ASSERT_FALSE(bytes.empty()) << weightpager_error();
    auto client = control::Client::connect(getpid());
    ASSERT_TRUE(client) << client.error().message;
    const auto hello = client->ask({{"request", "hello"}});
    ASSERT_TRUE(hello) << hello.error().message;
    EXPECT_EQ(hello->at("kind"), "library");
    EXPECT_EQ(hello->at("models").at(0).at("size_bytes"), file.size_bytes());
    for (uint64_t at = 0; at < bytes.size(); at += 4096) {
      ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(&bytes[at]), word_at(at));
    }
    // While somebody is connected.
    pager.reset();
    EXPECT_FALSE(client->ask({{"request", "stat"}}));
    EXPECT_FALSE(control::Client::connect(getpid()));
  }
  EXPECT_EQ(rmdir((std::string(directory) + "/weightpager").c_str()), 0);
  EXPECT_EQ(rmdir(directory), 0);
}

TEST(Api, OlderCallersGetTheFieldsTheyKnow) {
  // Without what came later: whether it listens.
  weightpager_options options{offsetof(weightpager_options, listens), 64 * MiB, nullptr, 1};
  weightpager_pager* pager = nullptr;
  ASSERT_EQ(weightpager_open(&options, &pager), 0);
  weightpager_statistics statistics;
  statistics.struct_bytes = 16;
  statistics.resident_bytes = 77;
  weightpager_get_statistics(pager, &statistics);
  EXPECT_EQ(statistics.window_bytes, 64 * MiB);
  EXPECT_EQ(statistics.resident_bytes, 77u);
  auto other = api::Pager::open(64 * MiB, nullptr, true);
  EXPECT_TRUE(other) << "the older caller's listens: " << weightpager_error();
  weightpager_close(pager);
}

}  // namespace
}  // namespace weightpager
