// What a spill file promises, against a model and on real file systems: its places, its limits, and
// that nothing is left of it.
#include "pager/spill/spill_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "tests/base/lacks.h"
#include "tests/io/pattern_file.h"
#include "tests/spill/small_disk.h"

namespace weightpager::spill {
namespace {

constexpr uint32_t chunk_bytes = 2 * MiB;

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "spill.XXXXXX") {
    if (!mkdtemp(path_.data())) ADD_FAILURE() << path_;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SpillFile make_file(const std::string& folder, uint64_t place_bytes = chunk_bytes) {
  auto file = SpillFile::create(folder, place_bytes);
  if (!file) throw std::runtime_error(file.error().message);
  return std::move(*file);
}

/// What the file takes of the disk.
uint64_t disk_bytes(const SpillFile& file) {
  struct stat facts;
  EXPECT_EQ(fstat(file.fd(), &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

/// While it exists, this process may not make files longer than `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &lower), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(SpillFileTest, TheFolderShowsNothing) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  EXPECT_TRUE(file.take_place());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE(fcntl(file.fd(), F_GETFD) & FD_CLOEXEC);
  EXPECT_EQ(file.is_direct(), (fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0);
}

TEST(SpillFileTest, PlacesFollowEachOtherAndTheirRoomIsReserved) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  for (uint64_t place = 0; place < 40; ++place) {
    EXPECT_EQ(file.take_place(), place * chunk_bytes);
    EXPECT_GE(file.reserved_bytes(), (place + 1) * chunk_bytes);
    { EXPECT_GE(disk_bytes(file), file.reserved_bytes()); }
  }
  EXPECT_EQ(file.reserved_bytes(), 128 * MiB);
  EXPECT_EQ(file.places_in_use(), 40u);
}

TEST(SpillFileTest, TheLowestFreePlaceComesFirst) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  for (int place = 0; place < 10; ++place) EXPECT_TRUE(file.take_place());
  file.give_place(7 * chunk_bytes);
  file.give_place(3 * chunk_bytes);
  EXPECT_EQ(file.take_place(), 3 * chunk_bytes);
  EXPECT_EQ(file.take_place(), 7 * chunk_bytes);
  EXPECT_EQ(file.take_place(), 10 * chunk_bytes);
}

TEST(SpillFileTest, HeldPlacesAreNotGivenAgain) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  for (int place = 0; place < 4; ++place) EXPECT_TRUE(file.take_place());
  file.give_place(1 * chunk_bytes);
  file.hold_all();
  file.give_place(0);
  file.give_place(3 * chunk_bytes);
  EXPECT_EQ(file.places_in_use(), 1u);
  EXPECT_EQ(file.take_place(), 1 * chunk_bytes) << "it was free when the others were held";
  EXPECT_EQ(file.take_place(), 4 * chunk_bytes);
  file.give_place(4 * chunk_bytes);
  EXPECT_EQ(file.take_place(), 4 * chunk_bytes);
}

TEST(SpillFileTest, ShrinkingGivesTheEndBack) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  for (int place = 0; place < 70; ++place) EXPECT_TRUE(file.take_place());
  const uint64_t before = disk_bytes(file);
  for (uint64_t place = 10; place < 70; ++place) file.give_place(place * chunk_bytes);
  file.give_place(2 * chunk_bytes);
  file.shrink();
  EXPECT_EQ(file.reserved_bytes(), 10 * chunk_bytes);
  EXPECT_LT(disk_bytes(file), before);
  EXPECT_EQ(file.take_place(), 2 * chunk_bytes);
  EXPECT_EQ(file.take_place(), 10 * chunk_bytes);
  for (uint64_t place = 0; place < 11; ++place) file.give_place(place * chunk_bytes);
  file.shrink();
  EXPECT_EQ(file.reserved_bytes(), 0u);
  EXPECT_EQ(file.take_place(), 0u);
}

TEST(SpillFileTest, RandomTakingAndGivingIsAsInTheModel) {
  const Folder folder;
  constexpr uint64_t place_bytes = 64 * KiB;
  SpillFile file = make_file(folder.path(), place_bytes);
  std::mt19937_64 random(39);
  std::set<uint64_t> taken, given, held, held_back;
  uint64_t highest = 0, end = 0;
  for (int step = 0; step < 100'000; ++step) {
    // More places, then fewer, and so on.
    const bool takes = random() % 8 < (step / 10'000 % 2 == 0 ? 5u : 3u);
    if (takes || taken.empty()) {
      const uint64_t lowest = given.empty() ? end : *given.begin();
      end = std::max(end, lowest + place_bytes);
      ASSERT_EQ(file.take_place(), lowest);
      taken.insert(lowest);
      given.erase(lowest);
      highest = std::max<uint64_t>(highest, taken.size());
    } else {
      auto one = taken.lower_bound(random() % (*taken.rbegin() + 1) / place_bytes * place_bytes);
      file.give_place(*one);
      (held.contains(*one) ? held_back : given).insert(*one);
      taken.erase(one);
    }
    if (step % 40'000 == 20'000) {
      file.hold_all();
      held.insert(taken.begin(), taken.end());
    }
    if (step % 7'000 == 0) file.shrink();
    ASSERT_EQ(file.places_in_use(), taken.size());
    if (!taken.empty()) {
      ASSERT_GE(file.reserved_bytes(), *taken.rbegin() + place_bytes);
    }
  }
}

// The signal that the kernel would send is not: it would end the test.
TEST(SpillFileTest, ALimitOnFilesIsFilledAndNotCrossed) {
  const Folder folder;
  SpillFile file = make_file(folder.path());
  {
    const FileSizeLimit limit(11 * chunk_bytes + 4096);
    for (uint64_t place = 0; place < 11; ++place) {
      EXPECT_EQ(file.take_place(), place * chunk_bytes);
    }
    EXPECT_EQ(file.take_place(), std::nullopt);
    EXPECT_EQ(file.last_error(), EFBIG);
    file.give_place(5 * chunk_bytes);
    EXPECT_EQ(file.take_place(), 5 * chunk_bytes);
  }
  EXPECT_EQ(file.take_place(), 11 * chunk_bytes) << "there is room again";
}

// Every place that was given out can be written and read back; then the disk is full, and says so.
TEST(SpillFileTest, AFullDiskShowsBeforeAPlaceIsPromised) {
  const Folder folder;
  const SmallDisk disk(folder.path(), "90M");
  WP_SKIP_FOR(lack_unless(disk.is_mounted(), "this user may not mount a small file system"));
  SpillFile file = make_file(disk.path());
  std::vector<uint64_t> places;
  while (const auto place = file.take_place()) places.push_back(*place);
  EXPECT_EQ(file.last_error(), ENOSPC);
  EXPECT_GT(places.size(), 32u) << "the step is made smaller until the disk is full";
  EXPECT_LT(*room_bytes(disk.path()), 2 * chunk_bytes);
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), places.size());

  auto reader = io::open_best_reader({.reads_max = 16});
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<io::Buffer> buffers;
  for (int i = 0; i < 16; ++i) buffers.emplace_back(chunk_bytes);
  const auto finish_all = [&](uint32_t in_flight_max) {
    while ((*reader)->reads_in_flight() > in_flight_max) {
      for (const io::Completion& it : (*reader)->wait(-1).completions) {
        EXPECT_EQ(it.error_number, 0);
        EXPECT_EQ(it.length_bytes, chunk_bytes);
      }
    }
  };
  for (size_t i = 0; i < places.size(); ++i) {
    if (i % 16 == 0) finish_all(0);
    std::byte* buffer = buffers[i % 16].data();
    io::fill_with_pattern({buffer, chunk_bytes}, places[i]);
    (*reader)->start_write({i, file.fd(), places[i], chunk_bytes, buffer});
  }
  finish_all(0);
  for (size_t i = 0; i < places.size(); ++i) {
    (*reader)->start({i, file.fd(), places[i], chunk_bytes, buffers[0].data()});
    finish_all(0);
    ASSERT_EQ(io::first_difference(buffers[0].first(chunk_bytes), places[i]), std::nullopt);
  }

  file.give_place(places[3]);
  EXPECT_EQ(file.take_place(), places[3]);
  for (const uint64_t place : places) file.give_place(place);
  file.shrink();
  EXPECT_GT(*room_bytes(disk.path()), 32 * chunk_bytes);
}

TEST(SpillFileTest, FoldersThatWillNotDoAreRefusedWithTheOption) {
  const Folder folder;
  std::map<std::string, int> refused = {
      {folder.path() + "/none", ENOENT}, {"/proc/self/status", ENOTDIR}, {"/proc/self", 0}};
  struct statfs shm;
  if (statfs("/dev/shm", &shm) == 0 && shm.f_type == 0x01021994) refused["/dev/shm"] = EINVAL;
  for (const auto& [path, error_number] : refused) {
    const auto file = SpillFile::create(path, chunk_bytes);
    ASSERT_FALSE(file) << path;
    EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
    EXPECT_NE(file.error().hint.find("--spill DIR"), std::string::npos) << file.error().hint;
    if (error_number != 0) {
      EXPECT_EQ(file.error().error_number, error_number) << path;
    }
  }
}

TEST(SpillFileTest, RoomIsWhatTheFileSystemSays) {
  const Folder folder;
  const auto room = room_bytes(folder.path());
  ASSERT_TRUE(room);
  EXPECT_GT(*room, 0u);
  EXPECT_FALSE(room_bytes(folder.path() + "/none"));
}

}  // namespace
}  // namespace weightpager::spill
