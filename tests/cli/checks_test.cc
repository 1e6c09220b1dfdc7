// What `weightpager run` looks at before it starts an engine.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "pager/base/memory_limit.h"
#include "pager/base/units.h"
#include "tools/arguments/model_arguments.h"
#include "tools/arguments/window_argument.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ChecksTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(root_.data()), nullptr); }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return root_ + "/" + name; }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
    return path(name);
  }

  std::string root_ = testing::TempDir() + "checks.XXXXXX";
};

class MemoryLimitTest : public ChecksTest {
 protected:
  void SetUp() override {
    ChecksTest::SetUp();
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1 kB\n");
  }

  void expect_limit(uint64_t bytes, const std::string& source) const {
    const MemoryLimit limit = memory_limit(root_);
    EXPECT_EQ(limit.bytes, bytes);
    EXPECT_EQ(limit.source, source);
  }
};

TEST_F(MemoryLimitTest, IsTheMachinesWithoutCgroups) {
  expect_limit(16 * GiB, "/proc/meminfo (MemTotal)");
}

TEST_F(MemoryLimitTest, IsTheLowestOnTheWayUpInVersion2) {
  write("proc/self/cgroup", "0::/system/service\n");
  write("proc/self/mountinfo", "31 1 0:28 / /cg rw shared:1 - cgroup2 cgroup2 rw\n");
  write("cg/system/service/memory.max", "max\n");
  write("cg/system/memory.max", "2147483648\n");
  write("cg/memory.max", "4294967296\n");
  expect_limit(2 * GiB, "/cg/system/memory.max");
}

TEST_F(MemoryLimitTest, IsThatOfTheMemoryControllerInVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n");
  write("proc/self/mountinfo",
        "30 1 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "31 1 0:28 / /cg/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n");
  write("cg/cpu/a/memory.limit_in_bytes", "1\n");
  write("cg/memory/a/memory.limit_in_bytes", "1073741824\n");
  write("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
  expect_limit(1 * GiB, "/cg/memory/a/memory.limit_in_bytes");
}

TEST_F(MemoryLimitTest, IsFoundInAContainerThatSeesAPartOfTheHierarchy) {
  write("proc/self/cgroup", "4:memory:/docker/1234/inner\n");
  write("proc/self/mountinfo", "31 1 0:28 /docker/1234 /cg rw - cgroup cgroup rw,memory\n");
  write("cg/inner/memory.limit_in_bytes", "1073741824\n");
  expect_limit(1 * GiB, "/cg/inner/memory.limit_in_bytes");
}

TEST_F(MemoryLimitTest, IsThatOfTheMountWhereTheGroupIsOutsideOfIt) {
  write("proc/self/cgroup", "0::/../elsewhere\n");
  write("proc/self/mountinfo", "31 1 0:28 / /cg rw - cgroup2 cgroup2 rw\n");
  write("cg/memory.max", "1073741824\n");
  expect_limit(1 * GiB, "/cg/memory.max");
}

TEST_F(ChecksTest, ModelsAreFoundWhereverArgumentsNameThem) {
  const std::string gguf = write("a.gguf", "");
  const std::string equals = write("b=c.gguf", "");
  const std::string darknet = write("net.weights", "");
  const std::string shard_1 = write("folder/model-1.safetensors", "");
  const std::string shard_2 = write("folder/model-2.safetensors", "");
  write("folder/config.json", "");
  const Words arguments = {"engine",
                           "-m",
                           gguf,
                           "--model=" + equals,
                           "--weights=" + darknet,
                           darknet,
                           "a.txt",
                           path("missing.gguf"),
                           path("folder")};
  EXPECT_EQ(find_model_files(arguments, {}), (Words{gguf, equals, shard_1, shard_2}));
  EXPECT_EQ(find_model_files(arguments, {"*.weights"}),
            (Words{gguf, equals, darknet, shard_1, shard_2}));
}

TEST_F(ChecksTest, AModelIsFoundOnceHoweverOftenItIsNamed) {
  const std::string gguf = write("a.gguf", "");
  fs::create_symlink(gguf, path("link.gguf"));
  EXPECT_EQ(find_model_files({gguf, root_ + "/./a.gguf", path("link.gguf")}, {}), Words{gguf});
}

TEST(WindowArgument, TakesSizesAndShares) {
  const MemoryLimit limit = {16 * GiB, "a test"};
  EXPECT_EQ(parse_window("1GiB", 0, limit), 1 * GiB);
  EXPECT_EQ(parse_window("25%", 4 * GiB, limit), 1 * GiB);
  EXPECT_EQ(parse_window("110%", 1000 * MiB, limit), 1100 * MiB);
  EXPECT_EQ(parse_window("12.5%", 4 * GiB + 100, limit), 512 * MiB) << "whole chunks";
  EXPECT_EQ(parse_window("16GiB", 0, limit), 16 * GiB);
  EXPECT_EQ(parse_window("32MiB", 0, limit), 32 * MiB);
}

TEST(WindowArgument, RefusesWhatCannotWork) {
  const MemoryLimit limit = {16 * GiB, "/limit/file"};
  for (const char* text :
       {"%", "0%", "-5%", "nan%", "1e9%", "25 %", "25%%", "x%", "8GB", "", "-1"}) {
    EXPECT_FALSE(parse_window(text, 4 * GiB, limit)) << text;
  }
  EXPECT_FALSE(parse_window("31MiB", 4 * GiB, limit));
  EXPECT_FALSE(parse_window("1%", 1 * GiB, limit)) << "below the minimum";
  EXPECT_FALSE(parse_window("25%", 0, limit)) << "a share of no model";
  const auto above = parse_window("17GiB", 0, limit);
  ASSERT_FALSE(above);
  EXPECT_NE(above.error().message.find("/limit/file is 16.0 GiB"), std::string::npos)
      << above.error().message;
}

}  // namespace
}  // namespace weightpager::tools
