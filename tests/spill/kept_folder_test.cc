// The folder of kept chunks: whose it is, what is found there, and what goes.
#include "pager/spill/kept_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "tests/base/lacks.h"
#include "tests/spill/small_disk.h"

namespace weightpager::spill {
namespace {

constexpr uint64_t kept_place_bytes = 128 * KiB;

class KeptFolderTest : public ::testing::Test {
 protected:
  // Beside the test program: /tmp may be in memory.
  KeptFolderTest() : parent_("kept-folder.XXXXXX") {
    if (!mkdtemp(parent_.data())) ADD_FAILURE() << parent_;
    folder_ = parent_ + "/kept";
  }
  ~KeptFolderTest() override { std::filesystem::remove_all(parent_); }

  KeptFolder open(uint64_t place_bytes = kept_place_bytes) const {
    auto kept = open_kept_folder(folder_, place_bytes);
    if (!kept) throw std::runtime_error(kept.error().message);
    return std::move(*kept);
  }

  /// Has the run write a chunk with this content.
  static void keep(KeptFolder& kept, uint64_t content) {
    const uint64_t offset_bytes = *kept.own.take_place();
    const uint64_t place = offset_bytes / kept.own.place_bytes();
    const KeptRecordBytes record = kept_record({place, {content, ~content}});
    ASSERT_EQ(pwrite(kept.own_index.get(), record.data(), record.size(),
                     static_cast<off_t>(kept_record_offset(place))),
              static_cast<ssize_t>(record.size()));
  }

  static std::vector<uint64_t> contents(const EarlierKept& earlier) {
    std::vector<uint64_t> contents;
    for (const KeptRecord& it : earlier.records) contents.push_back(it.hash.low);
    return contents;
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& it : std::filesystem::directory_iterator(folder_))
      names.insert(it.path().filename().string());
    return names;
  }
  static void set_used(const std::string& index_path, int64_t days_ago) {
    const timespec at{std::time(nullptr) - days_ago * 24 * 3600, 0};
    const timespec both[2] = {at, at};
    ASSERT_EQ(utimensat(AT_FDCWD, index_path.c_str(), both, 0), 0);
  }
  static void expect_refused(const std::string& folder, const std::string& why) {
    const auto refused = check_kept_folder(folder);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().hint, "");
    EXPECT_FALSE(open_kept_folder(folder, kept_place_bytes));
  }

  std::string parent_;
  std::string folder_;
};

TEST_F(KeptFolderTest, IsItsOwnersAlone) {
  const KeptFolder kept = open();
  struct stat facts;
  ASSERT_EQ(stat(folder_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  for (const std::string& name : names()) {
    ASSERT_EQ(stat((folder_ + "/" + name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(KeptFolderTest, WhereOthersMayWriteNothingIsKept) {
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0720), 0);
  expect_refused(folder_, "others may write there");
  ASSERT_EQ(chmod(folder_.c_str(), 0702), 0);
  expect_refused(folder_, "others may write there");
  expect_refused(parent_ + "/no/kept", "No such file");
  std::ofstream(parent_ + "/file") << "x";
  expect_refused(parent_ + "/file", "Not a directory");
}

TEST_F(KeptFolderTest, TheNextRunFindsWhatWasKept) {
  {
    KeptFolder kept = open();
    EXPECT_TRUE(kept.earlier.empty());
    for (const uint64_t content : {5, 6, 7}) keep(kept, content);
  }
  const KeptFolder kept = open();
  ASSERT_EQ(kept.earlier.size(), 1u);
  EXPECT_EQ(contents(kept.earlier[0]), (std::vector<uint64_t>{5, 6, 7}));
  EXPECT_TRUE(kept.notices.empty());
}

TEST_F(KeptFolderTest, WhatAnotherProcessIsWritingIsLeftAlone) {
  KeptFolder first = open();
  keep(first, 5);
  set_used(first.own_index_path, 100);
  KeptFolder second = open();
  EXPECT_TRUE(second.earlier.empty());
  EXPECT_NE(second.own_index_path, first.own_index_path);
  EXPECT_TRUE(names().contains(std::filesystem::path(first.own_index_path).filename()));
  keep(second, 6);
  first = {};
  second = {};
  set_used(folder_ + "/kept-000001.index", 0);
  EXPECT_EQ(open().earlier.size(), 2u);
}

TEST_F(KeptFolderTest, ChunksOfAnotherSizeAreNotFound) {
  KeptFolder kept = open(64 * KiB);
  keep(kept, 5);
  kept = {};
  EXPECT_TRUE(open().earlier.empty());
  EXPECT_EQ(open(64 * KiB).earlier.size(), 1u);
}

TEST_F(KeptFolderTest, WhatIsEmptyOrOldGoes) {
  for (const uint64_t content : {1, 2, 3}) {
    KeptFolder kept = open();
    keep(kept, content);
  }
  EXPECT_EQ(names().size(), 7u) << "three pairs and the lock";
  { const KeptFolder empty = open(); }
  set_used(folder_ + "/kept-000001.index", 31);
  set_used(folder_ + "/kept-000002.index", 29);
  const KeptFolder kept = open();
  ASSERT_EQ(kept.earlier.size(), 2u);
  EXPECT_EQ(contents(kept.earlier[0]), (std::vector<uint64_t>{3})) << "used last";
  EXPECT_EQ(contents(kept.earlier[1]), (std::vector<uint64_t>{2}));
  EXPECT_FALSE(names().contains("kept-000001.chunks"));
  EXPECT_FALSE(names().contains("kept-000004.index")) << "it was empty";
}

TEST_F(KeptFolderTest, TheLeastRecentlyUsedOfManyGo) {
  for (uint64_t content = 1; content <= kept_files_max + 2; ++content) {
    KeptFolder kept = open();
    keep(kept, content);
    set_used(kept.own_index_path, static_cast<int64_t>(content) % 20);
  }
  note_kept_use(folder_ + "/kept-000001.index");
  const KeptFolder kept = open();
  EXPECT_EQ(kept.earlier.size(), kept_files_max);
  EXPECT_EQ(contents(kept.earlier[0]), (std::vector<uint64_t>{1}));
}

// Half of the room that the disk would have without what is kept.
TEST_F(KeptFolderTest, WhatIsKeptLeavesRoomOnTheDisk) {
  const SmallDisk disk(parent_, "200M");
  WP_SKIP_FOR(lack_unless(disk.is_mounted(), "this user may not mount a small file system"));
  folder_ = disk.path() + "/kept";
  for (const uint64_t content : {1, 2}) {
    KeptFolder kept = open();
    for (uint64_t bytes = 0; bytes < 48 * MiB; bytes += kept_place_bytes) keep(kept, content);
    EXPECT_EQ(kept.earlier.size(), content - 1) << "there is room for both";
  }
  const int other = ::open((disk.path() + "/other").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(posix_fallocate(other, 0, 60 * MiB), 0);
  ::close(other);
  KeptFolder kept = open();
  ASSERT_EQ(kept.earlier.size(), 1u);
  EXPECT_EQ(contents(kept.earlier[0]).front(), 2u) << "used last";
  EXPECT_LT(kept.own_bytes_max, 48 * MiB);
  EXPECT_GT(kept.own_bytes_max, 0u);
}

TEST_F(KeptFolderTest, WhoHasAFileOpenGoesOnWithIt) {
  {
    KeptFolder kept = open();
    keep(kept, 5);
    ASSERT_EQ(fcntl(kept.own.fd(), F_SETFL, 0), 0);
    ASSERT_EQ(pwrite(kept.own.fd(), "weights", 7, 0), 7);
  }
  const KeptFolder kept = open();
  ASSERT_EQ(fcntl(kept.earlier[0].chunks.get(), F_SETFL, 0), 0);
  set_used(kept.earlier[0].index_path, 40);
  open();
  EXPECT_FALSE(std::filesystem::exists(kept.earlier[0].index_path));
  char text[8] = {};
  EXPECT_EQ(pread(kept.earlier[0].chunks.get(), text, 7, 0), 7);
  EXPECT_STREQ(text, "weights");
}

TEST_F(KeptFolderTest, AnIndexThatIsNoneIsSetAsideAndTold) {
  {
    KeptFolder kept = open();
    keep(kept, 5);
  }
  std::ofstream(folder_ + "/kept-000001.index") << std::string(1000, 'x');
  const KeptFolder kept = open();
  EXPECT_TRUE(kept.earlier.empty());
  ASSERT_EQ(kept.notices.size(), 1u);
  EXPECT_NE(kept.notices[0].find("kept-000001.index"), std::string::npos) << kept.notices[0];
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/kept-000001.chunks"));
}

TEST_F(KeptFolderTest, RecordsOfPlacesThatAreNotThereSayNothing) {
  {
    KeptFolder kept = open();
    for (const uint64_t content : {5, 6}) keep(kept, content);
  }
  ASSERT_EQ(truncate((folder_ + "/kept-000001.chunks").c_str(), kept_place_bytes + 1), 0);
  EXPECT_EQ(contents(open().earlier.at(0)), (std::vector<uint64_t>{5}));
}

TEST_F(KeptFolderTest, FilesThatOthersMayReadAreNotTaken) {
  {
    KeptFolder kept = open();
    keep(kept, 5);
  }
  ASSERT_EQ(chmod((folder_ + "/kept-000001.chunks").c_str(), 0644), 0);
  EXPECT_TRUE(open().earlier.empty());
}

// A run that is killed leaves what it had written down.
TEST_F(KeptFolderTest, ARunThatIsKilledHoldsNothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    KeptFolder kept = open();
    keep(kept, 5);
    static_cast<void>(!write(ready[1], "x", 1));
    pause();
    _exit(0);
  }
  char one = 0;
  ASSERT_EQ(read(ready[0], &one, 1), 1);
  EXPECT_TRUE(open().earlier.empty()) << "it is alive";
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(open().earlier.size(), 1u);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace weightpager::spill
