#include "pager/telemetry/marks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weightpager::telemetry {
namespace {

class MarksTest : public testing::Test {
 protected:
  MarksTest() {
    char pattern[] = "/tmp/marks-XXXXXX";
    directory_ = mkdtemp(pattern);
  }
  ~MarksTest() override {
    leave_marks_in("");
    std::filesystem::remove_all(directory_);
  }
  void make_file() const { std::ofstream file(marks_path(directory_)); }

  std::string directory_;
};

TEST_F(MarksTest, ComeBackInOrder) {
  make_file();
  leave_marks_in(directory_);
  leave_mark(MarkKind::loaded, "/bin/engine");
  leave_mark(MarkKind::mapped_plain, "", 42, MarkPlace::fixed);
  const auto marks = read_marks(directory_);
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].kind, MarkKind::loaded);
  EXPECT_STREQ(marks[0].subject, "/bin/engine");
  EXPECT_EQ(marks[0].process_id, getpid());
  EXPECT_EQ(marks[1].amount, 42u);
  EXPECT_EQ(marks[1].place, MarkPlace::fixed);
}

TEST_F(MarksTest, OfALongNameTheEndIsKept) {
  make_file();
  leave_marks_in(directory_);
  std::string path(1000, 'x');
  path += "/model.gguf";
  leave_mark(MarkKind::opened, path);
  const std::string subject = read_marks(directory_).at(0).subject;
  EXPECT_EQ(subject.size(), sizeof(Mark::subject) - 1);
  EXPECT_TRUE(subject.ends_with("x/model.gguf"));
}

TEST_F(MarksTest, WithoutAFileNothingIsMadeAndNothingSaid) {
  leave_marks_in(directory_);
  errno = EDOM;
  leave_mark(MarkKind::loaded, "");
  EXPECT_EQ(errno, EDOM);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  EXPECT_TRUE(read_marks(directory_).empty());
}

TEST_F(MarksTest, NoLinkIsFollowed) {
  const std::string other = directory_ + "/other";
  std::ofstream(other) << "precious";
  std::filesystem::create_symlink(other, marks_path(directory_));
  leave_marks_in(directory_);
  leave_mark(MarkKind::loaded, "");
  EXPECT_EQ(std::filesystem::file_size(other), 8u);
  EXPECT_TRUE(read_marks(directory_).empty());
}

TEST_F(MarksTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(marks_path(directory_).c_str(), 0600), 0);
  leave_marks_in(directory_);
  leave_mark(MarkKind::loaded, "");
  EXPECT_TRUE(read_marks(directory_).empty());
}

TEST_F(MarksTest, TheFileHasAnEnd) {
  make_file();
  leave_marks_in(directory_);
  constexpr uint64_t file_bytes_max = 4 << 20;
  std::filesystem::resize_file(marks_path(directory_), file_bytes_max);
  leave_mark(MarkKind::loaded, "");
  EXPECT_EQ(std::filesystem::file_size(marks_path(directory_)), file_bytes_max);
}

TEST_F(MarksTest, WhatIsNoMarkIsLeftOut) {
  std::ofstream(marks_path(directory_)) << std::string(300, '\xff');
  leave_marks_in(directory_);
  EXPECT_TRUE(read_marks(directory_).empty());
}

}  // namespace
}  // namespace weightpager::telemetry
