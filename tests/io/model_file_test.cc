#include "pager/io/model_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>

#include "tests/io/pattern_file.h"

namespace weightpager::io {
namespace {

std::string name_of_fd(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

TEST(ModelFile, TellsSizeAndAlignmentAndReadsAtIt) {
  const PatternFile pattern(3 * MiB + 17);
  const ModelFile& file = pattern.model_file();
  EXPECT_EQ(file.size_bytes(), 3 * MiB + 17);
  EXPECT_TRUE(std::has_single_bit(file.alignment_bytes()));
  EXPECT_EQ(file.is_direct(), file.alignment_bytes() > 1);
  EXPECT_EQ((fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0, file.is_direct());
  EXPECT_EQ(fcntl(file.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, 0);

  const uint32_t length = std::max(file.alignment_bytes(), 512u);
  Buffer buffer(length);
  ASSERT_EQ(pread(file.fd(), buffer.data(), length, length), length);
  EXPECT_EQ(first_difference(buffer.first(length), length), std::nullopt);
}

TEST(ModelFile, EmptyFileOpens) {
  const PatternFile pattern(0);
  EXPECT_EQ(pattern.size_bytes(), 0u);
}

TEST(ModelFile, LinkToADescriptorOpensTheSameFileEvenIfRemoved) {
  const PatternFile pattern(8 * KiB);
  unlink(pattern.path().c_str());
  const auto file = ModelFile::open(name_of_fd(pattern.fd()));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->size_bytes(), 8 * KiB);
  EXPECT_NE(file->fd(), pattern.fd());
}

TEST(ModelFile, FileInMemoryIsNotDirect) {
  const int memory = memfd_create("model", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  const auto file = ModelFile::open(name_of_fd(memory));
  close(memory);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(file->is_direct());
  EXPECT_EQ(file->alignment_bytes(), 1u);
}

TEST(ModelFile, MovesItsDescriptor) {
  const PatternFile pattern(8 * KiB);
  auto opened = ModelFile::open(pattern.path());
  ASSERT_TRUE(opened);
  const int fd = opened->fd();
  ModelFile moved = std::move(*opened);
  EXPECT_EQ(moved.fd(), fd);
  EXPECT_EQ(moved.size_bytes(), 8 * KiB);
  auto other = ModelFile::open(pattern.path());
  ASSERT_TRUE(other);
  moved = std::move(*other);
  EXPECT_NE(moved.fd(), fd);
}

void expect_refused(const std::string& path, int error_number) {
  const auto file = ModelFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().error_number, error_number);
  EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  EXPECT_FALSE(file.error().hint.empty());
}

TEST(ModelFile, RefusesAnotherFileThanTheOneExpected) {
  const PatternFile pattern(8 * KiB), other(8 * KiB);
  const FileIdentity wanted = pattern.model_file().identity();
  EXPECT_TRUE(ModelFile::open(pattern.path(), wanted, "model"));
  const auto file = ModelFile::open(other.path(), wanted, "model");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().error_number, ESTALE);
  EXPECT_NE(file.error().message.find("model"), std::string::npos) << file.error().message;
}

TEST(ModelFile, RefusesWhatIsNoRegularFile) {
  expect_refused(testing::TempDir() + "there-is-no-such-file", ENOENT);
  expect_refused(testing::TempDir(), EISDIR);
  expect_refused("/dev/null", EINVAL);

  const std::string pipe = testing::TempDir() + fmt::format("pipe.{}", getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, EINVAL);
  unlink(pipe.c_str());
}

TEST(DeviceLimits, AreWithinWhatTheReadersCanUse) {
  const PatternFile pattern(4 * KiB);
  const DeviceLimits limits = device_limits(pattern.fd());
  EXPECT_TRUE(std::has_single_bit(limits.read_bytes));
  EXPECT_GE(limits.read_bytes, 256 * KiB);
  EXPECT_LE(limits.read_bytes, chunk_bytes_max);
  EXPECT_GE(limits.queue_depth, 8u);
}

TEST(DeviceLimits, UnknownDevicesGetTheDefaults) {
  const int memory = memfd_create("model", MFD_CLOEXEC);
  for (const int fd : {memory, -1}) {
    const DeviceLimits limits = device_limits(fd);
    EXPECT_EQ(limits.read_bytes, DeviceLimits{}.read_bytes);
    EXPECT_EQ(limits.queue_depth, DeviceLimits{}.queue_depth);
    EXPECT_EQ(limits.readahead_bytes, 0u);
    EXPECT_EQ(limits.reads_are_copies, fd == memory);
  }
  close(memory);
}

}  // namespace
}  // namespace weightpager::io
