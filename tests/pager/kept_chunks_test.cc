// Spilled memory that the next run need not write again: what is found is what was written, counts
// are exact, and whatever happened to the folder, the engine has its own bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "pager/base/units.h"
#include "tests/io/faulty_reader.h"
#include "tests/pager/spilled_memory_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t kept_window_bytes = 32 * MiB;
// Less than the window: nothing leaves before the test says so.
constexpr uint64_t kept_bytes = 16 * MiB;
constexpr std::chrono::seconds kept_deadline{60};

class KeptChunksTest : public SpilledMemoryTest {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(mapper()));
    WP_SKIP_FOR(lack_for_mapper("move"));
    folder_ = "kept.XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    end();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  /// A run begins, with memory of zeros.
  void begin(uint64_t length_bytes = kept_bytes, PagerOptions options = {}) {
    end();
    telemetry_ = *telemetry::create("");
    options.spill_folder = ".";
    options.kept_folder = folder_;
    start(window_bytes_, options);
    ASSERT_NE(pager_, nullptr);
    auto address = pager_->add_spilled_memory({.name = "memory", .length_bytes = length_bytes});
    ASSERT_TRUE(address) << address.error().message;
    memory_ = *address;
    bytes_ = length_bytes;
  }
  void end() {
    if (memory_ != nullptr) pager_->remove(memory_, bytes_);
    memory_ = nullptr;
    pager_.reset();
  }

  /// Has every chunk leave.
  void empty_window() const {
    const auto deadline = std::chrono::steady_clock::now() + kept_deadline;
    std::vector<policy::ChunkId> all(bytes_ / chunk_bytes());
    std::iota(all.begin(), all.end(), 0);
    std::vector<ChunkView> states(all.size());
    for (;;) {
      pager_->evict(all);
      ASSERT_EQ(pager_->look(0, states), states.size());
      const bool is_empty = std::all_of(states.begin(), states.end(), [](const ChunkView& it) {
        return it.state == window::ChunkState::absent;
      });
      if (is_empty) return;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// The counters are set once in each turn of the pager's loop.
  void expect_kept(uint64_t expected_bytes) const {
    const auto deadline = std::chrono::steady_clock::now() + kept_deadline;
    while (telemetry_->spill_kept_bytes != expected_bytes) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << telemetry_->spill_kept_bytes << ", not " << expected_bytes;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// A run writes all of its memory, and all of it leaves.
  void run_once(uint64_t seed = 0) {
    begin();
    fill(seed);
    empty_window();
  }
  void expect_counts(uint64_t written_bytes, uint64_t found_bytes) const {
    EXPECT_EQ(telemetry_->spill_written_bytes, written_bytes);
    EXPECT_EQ(telemetry_->spill_found_bytes, found_bytes);
  }
  std::string only_file(const std::string& suffix) const {
    std::string found;
    for (const auto& it : std::filesystem::directory_iterator(folder_)) {
      if (it.path().extension() != suffix) continue;
      EXPECT_EQ(found, "");
      found = it.path();
    }
    return found;
  }

  uint64_t window_bytes_ = kept_window_bytes;
  std::string folder_;
};

TEST_P(KeptChunksTest, ASecondStartWritesNothing) {
  run_once();
  expect_counts(bytes_, 0);
  expect_kept(bytes_);
  for (int start = 2; start <= 4; ++start) {
    run_once();
    expect_counts(0, bytes_);
    EXPECT_EQ(wrong_words(), 0u);
    empty_window();
    EXPECT_EQ(wrong_words(), 0u);
    expect_counts(0, bytes_);
    EXPECT_EQ(telemetry_->read_errors, 0u);
  }
  EXPECT_EQ(telemetry_->spill_file_bytes, 0u);
}

TEST_P(KeptChunksTest, MoreThanTheWindowHasRoomFor) {
  constexpr uint64_t more_bytes = 96 * MiB;
  for (int start = 1; start <= 2; ++start) {
    begin(more_bytes);
    fill();
    for (int pass = 0; pass < 3; ++pass) ASSERT_EQ(wrong_words(), 0u) << pass;
    empty_window();
    EXPECT_EQ(wrong_words(), 0u);
    EXPECT_LE(telemetry_->resident_bytes_max, kept_window_bytes);
    EXPECT_TRUE(start == 2 || telemetry_->spill_found_bytes == 0);
  }
  // What left while it was being filled is written.
  EXPECT_LE(telemetry_->spill_written_bytes, more_bytes / 4);
  EXPECT_GE(telemetry_->spill_found_bytes, more_bytes);
}

// Of what is written in every pass nothing stays, not even while it is.
TEST_P(KeptChunksTest, WhatIsWrittenOverAndOverIsNotKept) {
  begin();
  for (uint64_t pass = 1; pass <= spill::SpilledChunks::weight_writes_max; ++pass) {
    fill(pass);
    empty_window();
    expect_kept(bytes_);
  }
  fill(100);
  empty_window();
  expect_kept(0);
  EXPECT_EQ(wrong_words(100), 0u);
  end();
  EXPECT_EQ(only_file(".chunks"), "");
}

// As an engine fills its chunks tensor by tensor: the next run comes by the same stages.
TEST_P(KeptChunksTest, WhatIsFilledInPartIsNotWrittenAgain) {
  const auto fill_in_two_steps = [&] {
    begin();
    for (const uint64_t half : {uint64_t{0}, chunk_bytes() / 2}) {
      for (uint64_t first = 0; first < bytes_; first += chunk_bytes()) {
        for (uint64_t at = first + half; at < first + half + chunk_bytes() / 2; at += 8)
          word(at) = word_at(at);
      }
      empty_window();
    }
  };
  fill_in_two_steps();
  expect_counts(2 * bytes_, 0);
  expect_kept(2 * bytes_);
  fill_in_two_steps();
  expect_counts(0, 2 * bytes_);
  EXPECT_EQ(wrong_words(), 0u);
}

// As an engine frees its weights when it ends.
TEST_P(KeptChunksTest, WhatCameBackStaysWhenItIsFreed) {
  run_once();
  ASSERT_EQ(wrong_words(), 0u);
  ASSERT_TRUE(pager_->forget(memory_, bytes_));
  expect_kept(bytes_);
  run_once();
  expect_counts(0, bytes_);
}

TEST_P(KeptChunksTest, WhatNeverCameBackGoesWhenItIsFreed) {
  run_once();
  ASSERT_TRUE(pager_->forget(memory_, bytes_));
  expect_kept(0);
  run_once();
  expect_counts(bytes_, 0);
}

// As an engine ends: it frees its weights, and goes on for a while with other memory.
TEST_P(KeptChunksTest, WhatIsFreedIsNotDrivenOutByLittle) {
  // All of it leaves at once, and is more than what may stay beside.
  window_bytes_ = 160 * MiB;
  begin(112 * MiB);
  fill();
  empty_window();
  ASSERT_EQ(wrong_words(), 0u);
  expect_kept(bytes_);
  ASSERT_TRUE(pager_->forget(memory_, bytes_));
  for (uint64_t at = 0; at < chunk_bytes(); at += 8) word(at) = at + 1;
  empty_window();
  expect_kept(bytes_ + chunk_bytes());
}

// Freed over and over, as scratch is: it does not pile up.
TEST_P(KeptChunksTest, WhatIsFreedDoesNotPileUp) {
  begin();
  for (uint64_t pass = 1; pass <= 12; ++pass) {
    fill(pass);
    empty_window();
    ASSERT_EQ(wrong_words(pass), 0u);
    ASSERT_TRUE(pager_->forget(memory_, bytes_));
  }
  // As much as is in use, 64 MiB, and what was freed since.
  const auto deadline = std::chrono::steady_clock::now() + kept_deadline;
  while (telemetry_->spill_kept_bytes > 2 * bytes_ + 64 * MiB) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << telemetry_->spill_kept_bytes;
  }
}

// Chunks of one content share one place, until one of them is written over.
TEST_P(KeptChunksTest, OneContentIsWrittenOnce) {
  begin();
  const auto fill_all_the_same = [&] {
    for (uint64_t at = 0; at < bytes_; at += 8) word(at) = word_at(at % chunk_bytes());
  };
  // One after the other, or none could be found.
  fill_all_the_same();
  const std::vector<policy::ChunkId> first = {0};
  while (telemetry_->spill_written_bytes == 0) pager_->evict(first);
  empty_window();
  expect_counts(chunk_bytes(), bytes_ - chunk_bytes());
  word(0) = 5;
  empty_window();
  EXPECT_EQ(word(0), 5u);
  EXPECT_EQ(word(chunk_bytes()), word_at(0));
  for (uint64_t at = chunk_bytes(); at < bytes_; at += 8)
    ASSERT_EQ(word(at), word_at(at % chunk_bytes())) << at;
}

TEST_P(KeptChunksTest, DamagedBytesAreNeverShown) {
  run_once();
  end();
  {
    std::fstream file(only_file(".chunks"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(3 * chunk_bytes() + chunk_bytes() / 2));
    file << "damage";
  }
  run_once();
  expect_counts(chunk_bytes(), bytes_ - chunk_bytes());
  EXPECT_EQ(wrong_words(), 0u);
  // And written anew, it is found.
  run_once();
  expect_counts(0, bytes_);
  EXPECT_EQ(wrong_words(), 0u);
}

TEST_P(KeptChunksTest, AShorterFileIsWrittenAnew) {
  run_once();
  end();
  ASSERT_EQ(truncate(only_file(".chunks").c_str(), static_cast<off_t>(bytes_ / 2)), 0);
  run_once();
  expect_counts(bytes_ / 2, bytes_ / 2);
  EXPECT_EQ(wrong_words(), 0u);
}

TEST_P(KeptChunksTest, ADamagedIndexIsMadeAnew) {
  run_once();
  end();
  std::ofstream(only_file(".index")) << std::string(4000, 'x');
  run_once();
  expect_counts(bytes_, 0);
  run_once();
  expect_counts(0, bytes_);
  EXPECT_EQ(wrong_words(), 0u);
}

// The index says that the file has other contents than it has, as after a power failure.
TEST_P(KeptChunksTest, AnIndexIsNotBelieved) {
  run_once(1);
  end();
  const std::string index = only_file(".index");
  std::filesystem::rename(index, folder_ + "/index");
  run_once(2);
  end();
  std::filesystem::rename(folder_ + "/index", only_file(".index"));
  run_once(1);
  expect_counts(bytes_, 0);
  EXPECT_EQ(wrong_words(1), 0u);
}

// What is found is compared before the bytes go; what was changed since is not shown.
TEST_P(KeptChunksTest, AKeptFileThatIsChangedIsNotShown) {
  run_once();
  end();
  const std::string chunks = only_file(".chunks");
  run_once();
  expect_counts(0, bytes_);
  std::ofstream(chunks, std::ios::app) << "more";
  struct sigaction before = {};
  static thread_local sigjmp_buf after_signal;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { siglongjmp(after_signal, signal); };
  sigaction(SIGBUS, &action, &before);
  volatile bool is_shown = false;
  if (sigsetjmp(after_signal, 1) == 0) {
    is_shown = load(memory_) != 1;
  }
  sigaction(SIGBUS, &before, nullptr);
  EXPECT_FALSE(is_shown);
  EXPECT_GE(telemetry_->read_errors, 1u);
}

// The bytes are the same, but somebody writes to the file: it is no home, neither for what is found
// there nor for what was.
TEST_P(KeptChunksTest, AKeptFileThatIsBeingChangedIsNoHome) {
  run_once();
  end();
  for (const bool was_found_before : {false, true}) {
    begin();
    fill();
    if (was_found_before) {
      empty_window();
      expect_counts(0, bytes_);
      EXPECT_EQ(wrong_words(), 0u);
    }
    for (const auto& it : std::filesystem::directory_iterator(folder_))
      ASSERT_EQ(utimensat(AT_FDCWD, it.path().c_str(), nullptr, 0), 0);
    empty_window();
    expect_counts(bytes_, was_found_before ? bytes_ : 0);
    EXPECT_EQ(wrong_words(), 0u);
    end();
  }
}

TEST_P(KeptChunksTest, AWriteThatFailsLosesNothing) {
  PagerOptions options;
  options.open_reader = io::faulty_pread({}, [](uint64_t number, const io::Write&) -> io::Fault {
    if (number != 2) return {};
    return {.kind = io::Fault::Kind::error, .error_number = ENOSPC};
  });
  begin(kept_bytes, options);
  fill();
  empty_window();
  EXPECT_EQ(wrong_words(), 0u);
  EXPECT_EQ(telemetry_->spill_errors, 1u);
  EXPECT_GT(telemetry_->spill_file_bytes, 0u) << "what was not kept went to the spill file";
}

// The spill file takes what the kept file has no room for.
TEST_P(KeptChunksTest, AFullFolderLosesNothing) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{.rlim_cur = kept_bytes - 4 * MiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  run_once();
  setrlimit(RLIMIT_FSIZE, &before);
  expect_kept(kept_bytes - 4 * MiB);
  EXPECT_EQ(telemetry_->spill_file_bytes, 4 * MiB);
  EXPECT_EQ(wrong_words(), 0u);
  run_once();
  expect_counts(4 * MiB, kept_bytes - 4 * MiB);
  EXPECT_EQ(wrong_words(), 0u);
}

// The disk is full, and the engine writes all of its memory anew again and again: what is no weight
// goes to where weights were kept that nobody needs any more.
TEST_P(KeptChunksTest, WhatFindsNoRoomElsewhereGoesWhereNothingIsNeeded) {
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{.rlim_cur = kept_bytes - 4 * MiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  run_once();
  for (uint64_t seed = 1; seed <= 5 && !HasFatalFailure(); ++seed) {
    fill(seed);
    empty_window();
    EXPECT_EQ(wrong_words(seed), 0u);
  }
  setrlimit(RLIMIT_FSIZE, &before);
}

// A run that is killed while it writes loses at most what was not written down yet.
TEST_P(KeptChunksTest, ARunThatIsKilledLeavesAFolderThatIsSound) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    begin();
    fill();
    empty_window();
    static_cast<void>(!write(ready[1], "x", 1));
    // Other contents at the same places, and then none.
    for (uint64_t pass = 1;; ++pass) {
      fill(pass);
      empty_window();
      static_cast<void>(!write(ready[1], "x", 1));
      if (pass % 3 == 0) pager_->forget(memory_, bytes_);
    }
  }
  close(ready[1]);
  char one = 0;
  for (int pass = 0; pass < 3; ++pass) ASSERT_EQ(read(ready[0], &one, 1), 1);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ready[0]);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    run_once(seed);
    EXPECT_EQ(telemetry_->spill_written_bytes + telemetry_->spill_found_bytes, bytes_);
    EXPECT_EQ(wrong_words(seed), 0u);
  }
  run_once(3);
  expect_counts(0, bytes_);
}

// Two runs at once: neither sees what the other one writes, and both what a third one has kept.
TEST_P(KeptChunksTest, TwoProcessesShareOneFolder) {
  run_once();
  end();
  int ready[2];
  int over[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(over), 0);
  const pid_t child = fork();
  if (child == 0) {
    run_once();
    bool is_right = telemetry_->spill_written_bytes == 0 && telemetry_->spill_found_bytes == bytes_;
    word(0) = 7;
    empty_window();
    static_cast<void>(!write(ready[1], "x", 1));
    char one = 0;
    static_cast<void>(!read(over[0], &one, 1));
    is_right = is_right && word(0) == 7;
    word(0) = word_at(0);
    _exit(is_right && wrong_words() == 0 ? 0 : 1);
  }
  char one = 0;
  ASSERT_EQ(read(ready[0], &one, 1), 1);
  run_once();
  expect_counts(0, bytes_);
  word(0) = 7;
  empty_window();
  expect_counts(chunk_bytes(), bytes_);
  EXPECT_EQ(word(0), 7u);
  word(0) = word_at(0);
  EXPECT_EQ(wrong_words(), 0u);
  ASSERT_EQ(write(over[1], "x", 1), 1);
  for (const int fd : {ready[0], ready[1], over[0], over[1]}) close(fd);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A child maps the places where its parent's memory lies, and keeps them, whatever becomes of the
// parent's memory and of the folder.
TEST_P(KeptChunksTest, AChildKeepsWhatItInherited) {
  run_once();
  for (int start = 1; start <= 2; ++start) {
    const std::vector<InheritedPart> parts = pager_->begin_fork();
    EXPECT_FALSE(parts.empty());
    int over[2];
    ASSERT_EQ(pipe(over), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (const InheritedPart& part : parts) {
        const int fd = open(part.link.c_str(), O_RDONLY);
        if (fd < 0 ||
            mmap(part.address, part.length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                 fd, static_cast<off_t>(part.offset_bytes)) == MAP_FAILED) {
          _exit(2);
        }
        close(fd);
      }
      char one = 0;
      static_cast<void>(!read(over[0], &one, 1));
      _exit(wrong_words() == 0 ? 0 : 1);
    }
    pager_->end_fork();
    // The parent writes all of it anew, and frees it; then the folder goes.
    for (uint64_t pass = 1; pass <= 4; ++pass) {
      fill(pass);
      empty_window();
    }
    EXPECT_EQ(wrong_words(4), 0u);
    pager_->forget(memory_, bytes_);
    if (start == 2) std::filesystem::remove_all(folder_);
    ASSERT_EQ(write(over[1], "x", 1), 1);
    close(over[0]);
    close(over[1]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0) << start;
    if (start == 2) break;
    // The second time with places of an earlier run.
    run_once();
    run_once();
    expect_counts(0, bytes_);
  }
}

INSTANTIATE_TEST_SUITE_P(Mappers, KeptChunksTest,
                         ::testing::Values(MapperAndChunk{"move", 2 * MiB},
                                           MapperAndChunk{"move", 128 * KiB},
                                           MapperAndChunk{"collapse", 2 * MiB}),
                         name_of);

}  // namespace
}  // namespace weightpager
