#include "pager/telemetry/telemetry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

namespace weightpager::telemetry {
namespace {

class TelemetryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(directory_.data()), nullptr); }
  void TearDown() override {
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }

  std::string path() const { return fmt::format("{}/{}.telemetry", directory_, getpid()); }

  void write_file(const std::string& bytes) { std::ofstream(path()) << bytes; }

  void expect_refused(const std::string& why) {
    const auto watched = open(path());
    ASSERT_FALSE(watched);
    EXPECT_NE(watched.error().message.find(path()), std::string::npos);
    EXPECT_NE(watched.error().message.find(why), std::string::npos) << watched.error().message;
  }

  std::string directory_ = testing::TempDir() + "telemetry.XXXXXX";
};

TEST_F(TelemetryTest, WatcherSeesWhatThePagerCounts) {
  const auto telemetry = create(directory_);
  ASSERT_TRUE(telemetry) << telemetry.error().message;
  const auto watched = open(path());
  ASSERT_TRUE(watched) << watched.error().message;

  EXPECT_EQ((*watched)->process_id, getpid());
  EXPECT_STREQ((*watched)->command, program_invocation_short_name);
  EXPECT_EQ((*watched)->faults_demand, 0u);
  (*telemetry)->faults_demand.fetch_add(3, std::memory_order_relaxed);
  EXPECT_EQ((*watched)->faults_demand, 3u);
  close(*watched);
  close(*telemetry);
}

TEST_F(TelemetryTest, FileIsForItsOwnerOnly) {
  const auto telemetry = create(directory_);
  ASSERT_TRUE(telemetry);
  struct stat status;
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(status.st_size, static_cast<off_t>(sizeof(Telemetry)));
  close(*telemetry);
}

TEST_F(TelemetryTest, SecondProgramOfAProcessStartsAnew) {
  const auto former = create(directory_);
  ASSERT_TRUE(former);
  (*former)->passes = 9;
  const auto present = create(directory_);
  ASSERT_TRUE(present) << present.error().message;
  (*former)->passes = 10;

  const auto watched = open(path());
  ASSERT_TRUE(watched);
  EXPECT_EQ((*watched)->passes, 0u);
  for (const Telemetry* telemetry :
       {*watched, const_cast<const Telemetry*>(*former), const_cast<const Telemetry*>(*present)}) {
    close(telemetry);
  }
}

TEST_F(TelemetryTest, WithoutADirectoryNobodyElseSees) {
  const auto telemetry = create("");
  ASSERT_TRUE(telemetry);
  EXPECT_EQ((*telemetry)->magic, telemetry_magic);
  EXPECT_NE(access(path().c_str(), F_OK), 0);
  close(*telemetry);
}

TEST_F(TelemetryTest, MissingDirectoryIsNamed) {
  const auto telemetry = create(directory_ + "/nowhere");
  ASSERT_FALSE(telemetry);
  EXPECT_EQ(telemetry.error().error_number, ENOENT);
  EXPECT_NE(telemetry.error().message.find(directory_ + "/nowhere/"), std::string::npos);
}

TEST_F(TelemetryTest, WatcherRefusesForeignFiles) {
  EXPECT_FALSE(open(path()));
  write_file("");
  expect_refused("0 bytes");
  write_file(std::string(sizeof(Telemetry) - 1, 'x'));
  expect_refused("bytes, expected");
  write_file(std::string(sizeof(Telemetry), 'x'));
  expect_refused("magic 0x78787878");

  Telemetry other_version;
  other_version.version = telemetry_version + 1;
  write_file({reinterpret_cast<const char*>(&other_version), sizeof other_version});
  expect_refused("version " + std::to_string(telemetry_version + 1));
}

}  // namespace
}  // namespace weightpager::telemetry
