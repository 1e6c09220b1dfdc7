// Memory of the engine's own, several times as large as the window: what is written there is what
// is read there, whoever writes, reads, frees and forgets, and whatever the disk does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/whole_file.h"
#include "tests/base/sanitized.h"
#include "tests/io/faulty_reader.h"
#include "tests/pager/spilled_memory_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t spilled_window_bytes = 32 * MiB;
constexpr uint64_t spilled_bytes = 96 * MiB;
thread_local sigjmp_buf after_spill_signal;

/// Whether the word could be loaded; otherwise SIGBUS was raised.
bool can_load_spilled(const std::byte* address, uint64_t& word) {
  if (sigsetjmp(after_spill_signal, 1) != 0) return false;
  word = *reinterpret_cast<const volatile uint64_t*>(address);
  return true;
}

/// Anonymous and shared memory.
uint64_t resident_bytes_of_process() {
  const auto status = read_whole_file("/proc/self/status", MiB, "the process's status");
  uint64_t sum_bytes = 0;
  for (const char* key : {"RssAnon:", "RssShmem:"})
    sum_bytes +=
        std::strtoull(status->c_str() + status->find(key) + std::strlen(key), nullptr, 10) * KiB;
  return sum_bytes;
}

class SpillingTest : public SpilledMemoryTest {
 protected:
  void SetUp() override {
    WP_SKIP_FOR(lack_for_mapper(mapper()));
    WP_SKIP_FOR(lack_for_mapper("move"));  // whatever serves files
    telemetry_ = *telemetry::create("");
    struct sigaction action = {};
    action.sa_handler = [](int signal) { siglongjmp(after_spill_signal, signal); };
    sigaction(SIGBUS, &action, &before_);
  }
  void TearDown() override {
    if (telemetry_ == nullptr) return;
    if (memory_ != nullptr) pager_->remove(memory_, bytes_);
    sigaction(SIGBUS, &before_, nullptr);
  }

  void serve(uint64_t length_bytes = spilled_bytes, PagerOptions options = {}) {
    options.spill_folder = ".";
    start(spilled_window_bytes, options);
    ASSERT_NE(pager_, nullptr);
    auto address = pager_->add_spilled_memory(
        {.name = "memory", .length_bytes = length_bytes, .blocks = {&is_in_use, &freed_from_}});
    ASSERT_TRUE(address) << address.error().message;
    memory_ = *address;
    bytes_ = length_bytes;
  }

  static bool is_in_use(const void* freed_from, uint64_t offset_bytes) {
    return offset_bytes < static_cast<const std::atomic<uint64_t>*>(freed_from)->load();
  }

  pid_t fork_one_that_pauses() {
    static_cast<void>(pager_->begin_fork());
    const pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    pager_->end_fork();
    return child;
  }

  /// Returns how many words were not as they had to be.
  uint64_t work_of_eight_threads();

  Result<uint64_t> read_lazily(const PatternFile& file, uint64_t offset_bytes, uint64_t to_bytes,
                               uint64_t length_bytes) {
    return pager_->read_lazily({.address = memory_ + to_bytes,
                                .length_bytes = length_bytes,
                                .link = file.path(),
                                .file = *io::settled_identity_of(file.path()),
                                .name = file.path(),
                                .offset_bytes = offset_bytes});
  }

  std::atomic<uint64_t> freed_from_{UINT64_MAX};
  struct sigaction before_ = {};
};

TEST_P(SpillingTest, IsZerosAtFirst) {
  serve();
  for (uint64_t at = 0; at < bytes_; at += 4096) ASSERT_EQ(word(at), 0u) << at;
  // Zeros need no place on the disk.
  EXPECT_EQ(telemetry_->spill_written_bytes, 0u);
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
}

TEST_P(SpillingTest, KeepsWhatIsWritten) {
  serve();
  fill();
  for (int pass = 0; pass < 3; ++pass) ASSERT_EQ(wrong_words(), 0u) << pass;
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
}

TEST_P(SpillingTest, WritesOnceWhatIsOnlyRead) {
  serve();
  fill();
  ASSERT_EQ(wrong_words(), 0u);
  ASSERT_EQ(wrong_words(), 0u);
  // What never left the window yet may do so later, until the pager knows what is to stay. That is
  // decided anew when memory has not grown for 200 ms.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_EQ(wrong_words(), 0u);
  uint64_t written_bytes = 0;
  for (int pass = 0; pass < 20 && written_bytes != telemetry_->spill_written_bytes; ++pass) {
    written_bytes = telemetry_->spill_written_bytes;
    ASSERT_EQ(wrong_words(), 0u);
  }
  EXPECT_LE(written_bytes, bytes_);
  EXPECT_GE(written_bytes, bytes_ - spilled_window_bytes);
  for (int pass = 0; pass < 3; ++pass) ASSERT_EQ(wrong_words(), 0u);
  EXPECT_EQ(telemetry_->spill_written_bytes, written_bytes);
}

// As an engine does that repacks tensor by tensor, and puts the end of one behind that of another:
// between the two steps it reads more weights than the window has room for beside.
TEST_P(SpillingTest, AChunkThatIsFilledInTwoStepsIsMostlyWrittenOnce) {
  serve();
  const PatternFile weights(48 * MiB);
  const uint64_t repacked_bytes = bytes_ / 2;
  ASSERT_TRUE(read_lazily(weights, 0, repacked_bytes, 48 * MiB));
  uint64_t read_bytes = 0;
  const auto fill_half = [&](uint64_t begin) {
    for (uint64_t at = begin; at < begin + chunk_bytes() / 2; at += 8) word(at) = word_at(at);
    for (int chunk = 0; chunk < 2; ++chunk, read_bytes += chunk_bytes()) {
      EXPECT_EQ(word(repacked_bytes + read_bytes % repacked_bytes),
                word_at(read_bytes % repacked_bytes));
    }
  };
  const uint64_t lag_bytes = 4 * chunk_bytes();
  for (uint64_t at = 0; at < repacked_bytes + lag_bytes; at += chunk_bytes()) {
    if (at < repacked_bytes) fill_half(at);
    if (at >= lag_bytes) fill_half(at - lag_bytes + chunk_bytes() / 2);
  }
  for (uint64_t at = 0; at < repacked_bytes; at += 8) ASSERT_EQ(word(at), word_at(at));
  EXPECT_LE(telemetry_->spill_written_bytes, repacked_bytes + repacked_bytes / 4);
}

TEST_P(SpillingTest, NoticesEveryLaterWrite) {
  serve();
  fill();
  for (uint64_t pass = 1; pass <= 3; ++pass) {
    // One word of each chunk, another one in each pass.
    for (uint64_t at = pass * 8; at < bytes_; at += chunk_bytes()) word(at) = at + pass;
    for (uint64_t at = 0; at < bytes_; at += 8) {
      const uint64_t within = at % chunk_bytes();
      const bool is_changed = within >= 8 && within <= pass * 8;
      ASSERT_EQ(word(at), is_changed ? at + within / 8 : word_at(at)) << at;
    }
  }
}

// More at once than can be written at once.
TEST_P(SpillingTest, ManyChunksAreToGoTogether) {
  serve();
  fill();
  for (int round = 0; round < 3; ++round) {
    word(round * 8) = word_at(round * 8);
    pager_->drop();
    ASSERT_EQ(wrong_words(), 0u);
  }
}

TEST_P(SpillingTest, ForgetsWhatIsGivenUp) {
  serve();
  fill();
  EXPECT_TRUE(pager_->forget(memory_ + 4096, bytes_ - 4096));
  for (uint64_t at = chunk_bytes(); at < bytes_; at += 4096) ASSERT_EQ(word(at), 0u) << at;
  // Of the first chunk only a part was given up.
  for (uint64_t at = 0; at < chunk_bytes(); at += 8) ASSERT_EQ(word(at), word_at(at));
}

TEST_P(SpillingTest, DropsWhatNoBlockLiesIn) {
  freed_from_ = 0;
  serve();
  fill();
  EXPECT_EQ(telemetry_->spill_written_bytes, 0u);
}

TEST_P(SpillingTest, ReadsFilesWhenTheyAreTouched) {
  serve();
  const PatternFile file(48 * MiB);
  // At the beginning of a sector, of a page, and within them.
  for (const uint64_t offset_bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{512}, uint64_t{1608}}) {
    const uint64_t length_bytes = 40 * MiB;
    ASSERT_EQ(*read_lazily(file, offset_bytes, 8 * MiB, length_bytes), length_bytes);
    for (uint64_t at = 0; at < length_bytes; at += 8) {
      ASSERT_EQ(word(8 * MiB + at), word_at(offset_bytes + at)) << offset_bytes << " " << at;
    }
  }
  EXPECT_EQ(telemetry_->spill_written_bytes, 0u);
}

// The kernel had none for a chunk that is new, and that is no failure of the file.
TEST_P(SpillingTest, MemoryThatIsShortIsWaitedFor) {
  std::atomic<uint32_t> refused{0};
  PagerOptions options;
  options.open_reader = io::faulty_pread([&](uint64_t, const io::Read& read) -> io::Fault {
    if (!read.gets_memory) return {};
    return {.kind = io::Fault::Kind::error, .error_number = refused++ % 2 == 0 ? ENOMEM : EFAULT};
  });
  serve(spilled_bytes, options);
  const PatternFile file(48 * MiB);
  ASSERT_TRUE(read_lazily(file, 0, 0, 48 * MiB));
  for (uint64_t at = 0; at < 48 * MiB; at += 8) {
    uint64_t loaded = 0;
    ASSERT_TRUE(at % 4096 != 0 || can_load_spilled(memory_ + at, loaded)) << at;
    ASSERT_EQ(word(at), word_at(at)) << at;
  }
  EXPECT_EQ(telemetry_->read_errors, 0u);
  // A slot that was made ahead has its memory, and so has a small one.
  if (mapper() == "collapse" && chunk_bytes() == 2 * MiB) {
    EXPECT_GT(refused, 0u);
  }
}

TEST_P(SpillingTest, KeepsWhatIsWrittenOverAFile) {
  serve();
  const PatternFile file(64 * MiB);
  ASSERT_TRUE(read_lazily(file, 0, 0, 64 * MiB));
  for (uint64_t at = 8; at < 64 * MiB; at += 4 * MiB) word(at) = at;
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t at = 0; at < 64 * MiB; at += 8) {
      ASSERT_EQ(word(at), at % (4 * MiB) == 8 ? at : word_at(at)) << at;
    }
  }
  // The file's other chunks need no place.
  EXPECT_LE(telemetry_->spill_written_bytes, 16 * 2 * MiB);
}

TEST_P(SpillingTest, AFileThatWasChangedIsNeverShown) {
  serve();
  const PatternFile file(48 * MiB);
  ASSERT_TRUE(read_lazily(file, 0, 0, 48 * MiB));
  ASSERT_EQ(word(0), word_at(0));
  file.turn_over();
  uint64_t loaded = 0;
  EXPECT_FALSE(can_load_spilled(memory_ + 40 * MiB, loaded));
  EXPECT_GE(telemetry_->read_errors, 1u);
}

TEST_P(SpillingTest, AFileWithOtherNamesAndRightsIsStillRead) {
  serve();
  const PatternFile file(48 * MiB);
  ASSERT_TRUE(read_lazily(file, 0, 0, 48 * MiB));
  const std::string other = file.path() + ".other";
  ASSERT_EQ(chmod(file.path().c_str(), 0600), 0);
  ASSERT_EQ(link(file.path().c_str(), other.c_str()), 0);
  ASSERT_EQ(unlink(other.c_str()), 0);
  for (uint64_t at = 0; at < 48 * MiB; at += 4096) ASSERT_EQ(word(at), word_at(at));
}

// Each thread owns words of all chunks, writes and reads them, and now and then all of them forget.
TEST_P(SpillingTest, ManyThreadsReadAndWrite) {
  serve();
  constexpr uint64_t threads = 8;
  const int steps = cases(120, 50);
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> engine;
  for (uint64_t thread = 0; thread < threads; ++thread) {
    engine.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      std::vector<uint64_t> model(bytes_ / 4096);
      for (int step = 0; step < steps; ++step) {
        const uint64_t page = random() % model.size();
        volatile uint64_t& it = word(page * 4096 + thread * 8);
        if (it != model[page]) ++wrong;
        if (random() % 3 == 0) it = model[page] = random();
      }
    });
  }
  for (std::thread& thread : engine) thread.join();
  EXPECT_EQ(wrong, 0u);
}

// The engine would go on, twice as slowly as it could, and nobody would know why.
TEST_P(SpillingTest, MoreThanTheWindowHoldsIsWrittenInEachPass) {
  testing::internal::CaptureStderr();
  serve();
  for (uint64_t pass = 0; pass <= spill::SpilledChunks::weight_writes_max + 1; ++pass) fill(pass);
  EXPECT_EQ(wrong_words(spill::SpilledChunks::weight_writes_max + 1), 0u);
  const std::string told = testing::internal::GetCapturedStderr();
  const size_t line = told.find("the engine writes again and again");
  ASSERT_NE(line, std::string::npos) << told;
  EXPECT_EQ(told.find("the engine writes again and again", line + 1), std::string::npos) << told;
  EXPECT_NE(told.find("a window of 32 MiB"), std::string::npos) << told;
}

TEST_P(SpillingTest, WhatIsWrittenOnceIsNoReasonForALargerWindow) {
  testing::internal::CaptureStderr();
  serve();
  fill();
  for (int pass = 0; pass < 6; ++pass) EXPECT_EQ(wrong_words(), 0u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// What could not be written stays in memory, and nothing else is lost.
TEST_P(SpillingTest, AWriteThatFailsLosesNothing) {
  PagerOptions options;
  options.open_reader = io::faulty_pread({}, [](uint64_t number, const io::Write&) -> io::Fault {
    if (number % 5 != 2) return {};
    return {.kind = io::Fault::Kind::error, .error_number = number % 2 == 0 ? EIO : ENOSPC};
  });
  serve(spilled_bytes, options);
  fill();
  ASSERT_EQ(wrong_words(), 0u);
  EXPECT_GE(telemetry_->spill_errors, 1u);
}

TEST_P(SpillingTest, AShortWriteLosesNothing) {
  PagerOptions options;
  options.open_reader = io::faulty_pread({}, [](uint64_t number, const io::Write&) -> io::Fault {
    if (number != 3) return {};
    return {.kind = io::Fault::Kind::cut, .length_bytes = 4096};
  });
  serve(spilled_bytes, options);
  fill();
  ASSERT_EQ(wrong_words(), 0u);
  EXPECT_EQ(telemetry_->spill_errors, 1u);
}

// Never zeros: who touches what cannot be read back gets SIGBUS.
TEST_P(SpillingTest, WhatCannotBeReadBackIsNeverShown) {
  PagerOptions options;
  options.open_reader = io::faulty_pread([](uint64_t number, const io::Read&) -> io::Fault {
    if (number != 4) return {};
    return {.kind = io::Fault::Kind::error, .error_number = EIO, .length_bytes = 0};
  });
  serve(spilled_bytes, options);
  fill();
  uint64_t failed = 0;
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < bytes_; at += 4096) {
    uint64_t loaded = 0;
    if (!can_load_spilled(memory_ + at, loaded)) {
      ++failed;
    } else {
      wrong += loaded == word_at(at) ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0u);
  // It can be given up like any other, and stays SIGBUS.
  EXPECT_TRUE(pager_->forget(memory_, bytes_));
  // A read of several chunks is done once more for each of them.
  EXPECT_LE(failed, chunk_bytes() / 4096);
}

// The engine waits while the folder is full, and goes on when there is room.
TEST_P(SpillingTest, AFullFolderIsWaitedFor) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{.rlim_cur = 16 * MiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  serve();
  std::atomic<bool> is_filled{false};
  std::thread engine([&] {
    fill();
    is_filled = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(is_filled);
  setrlimit(RLIMIT_FSIZE, &before);
  engine.join();
  ASSERT_EQ(wrong_words(), 0u);
}

// A child has what its parent had when it was made, and keeps it, whatever the parent does then.
TEST_P(SpillingTest, AChildKeepsWhatItInherited) {
  serve();
  fill();
  const std::vector<InheritedPart> parts = pager_->begin_fork();
  // What is to go now stays until the child is there.
  pager_->drop();
  const pid_t child = fork();
  if (child == 0) {
    for (const InheritedPart& part : parts) {
      const int fd = open(part.link.c_str(), O_RDONLY);
      if (fd < 0 ||
          mmap(part.address, part.length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
               static_cast<off_t>(part.offset_bytes)) == MAP_FAILED) {
        _exit(2);
      }
      close(fd);
    }
    // Meanwhile the parent writes all of it anew.
    usleep(300'000);
    _exit(wrong_words() == 0 ? 0 : 1);
  }
  pager_->end_fork();
  fill(12345);
  ASSERT_EQ(wrong_words(12345), 0u);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_EQ(wrong_words(12345), 0u);
}

// What a child has inherited can go, also while the child lives, and when nobody writes to it.
TEST_P(SpillingTest, WhatAChildSharesLeavesTheWindow) {
  serve();
  fill();
  const pid_t child = fork_one_that_pauses();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(wrong_words(), 0u);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(wrong_words(), 0u);
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
}

// Of a huge page the engine writes one part while a child has it, and the others when it is gone.
TEST_P(SpillingTest, WhatAChildHadOnceCanBeTakenOut) {
  serve(24 * MiB);
  fill();
  const pid_t child = fork_one_that_pauses();
  for (uint64_t at = 0; at < bytes_; at += 2 * MiB) word(at) = word_at(at);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (uint64_t at = 4096; at < bytes_; at += 4096) {
    if (at % (2 * MiB) != 0) word(at) = word_at(at);
  }
  ASSERT_EQ(wrong_words(), 0u);
  EXPECT_TRUE(pager_->forget(memory_, bytes_));
  for (uint64_t at = 0; at < bytes_; at += 4096) ASSERT_EQ(word(at), 0u) << at;
}

// A block that is freed and a file that is read again while chunks come and go.
TEST_P(SpillingTest, ContentThatIsReplacedWhileItMoves) {
  serve();
  const PatternFile file(32 * MiB);
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    // Keeps the window busy.
    std::mt19937_64 random(5);
    while (!is_over) word(48 * MiB + random() % (48 * MiB) / 8 * 8) = random();
  });
  std::mt19937_64 random(6);
  uint64_t wrong = 0;
  for (int round = 0; round < cases(40, 10); ++round) {
    const uint64_t first = random() % 12 * 2 * MiB;
    const uint64_t length = (1 + random() % 4) * 2 * MiB;
    for (uint64_t at = first; at < first + length; at += 4096) word(at) = at + 1;
    if (random() % 2 == 0) {
      const bool is_forgotten = pager_->forget(memory_ + first, length);
      for (uint64_t at = first; is_forgotten && at < first + length; at += 4096) {
        wrong += word(at) == 0 ? 0 : 1;
      }
    } else {
      const auto noted = read_lazily(file, 40, first, length);
      for (uint64_t at = first; at < first + *noted; at += 4096) {
        wrong += word(at) == word_at(40 + at - first) ? 0 : 1;
      }
    }
  }
  is_over = true;
  other.join();
  EXPECT_EQ(wrong, 0u);
}

// Chunks whose bytes begin within a page of the file, and chunks whose bytes begin with one.
TEST_P(SpillingTest, WhatIsGivenUpDependsOnTheFileNoMore) {
  serve();
  const PatternFile file(48 * MiB);
  const uint64_t each_bytes = 40 * MiB;
  ASSERT_EQ(*read_lazily(file, 40, 0, each_bytes), each_bytes);
  ASSERT_EQ(*read_lazily(file, 4096, each_bytes, each_bytes), each_bytes);
  const auto wrong = [&] {
    uint64_t count = 0;
    for (uint64_t at = 0; at < each_bytes; at += 8) {
      count += word(at) == word_at(40 + at) ? 0 : 1;
      count += word(each_bytes + at) == word_at(4096 + at) ? 0 : 1;
    }
    return count;
  };
  const auto touch_all = [](const std::vector<std::byte*>& chunks) {
    for (const std::byte* chunk : chunks) load(chunk);
  };
  // Of what a child could not map all is absent yet.
  const auto odd = pager_->give_up_file(nullptr);
  EXPECT_EQ(odd.size(), each_bytes / chunk_bytes());
  EXPECT_EQ(odd.front(), memory_);
  touch_all(odd);
  EXPECT_EQ(wrong(), 0u);
  const auto identity = io::identity_of(OwnedFd(::open(file.path().c_str(), O_RDONLY)).get());
  touch_all(pager_->give_up_file(&*identity));
  file.turn_over();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(wrong(), 0u);
  EXPECT_EQ(telemetry_->read_errors, 0u);
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
}

// Files in views and spilled memory take turns with the same permits.
TEST_P(SpillingTest, SharesTheWindowWithModels) {
  serve();
  const PatternFile file(48 * MiB);
  std::byte* const model = map_writable(file);
  fill();
  const uint64_t before_bytes = resident_bytes_of_process();
  for (int pass = 0; pass < 3; ++pass) {
    uint64_t wrong = 0;
    std::thread other([&] {
      for (uint64_t at = 0; at < file.size_bytes(); at += 8)
        wrong += load(model + at) == word_at(at) ? 0 : 1;
    });
    EXPECT_EQ(wrong_words(), 0u) << pass;
    other.join();
    EXPECT_EQ(wrong, 0u) << pass;
    // Neither kind keeps memory for a chunk of the other. The window was full before. (Sanitizers
    // have memory of their own for what is touched.)
    if (is_sanitized) continue;
    EXPECT_LE(resident_bytes_of_process(), before_bytes + spilled_window_bytes / 4) << pass;
  }
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
  pager_->remove(model, file.size_bytes());
}

// ---- Long ones ----

// Operations of all threads together. The long run: WEIGHTPAGER_OPERATIONS=1000000.
uint64_t operations() {
  const char* const asked = std::getenv("WEIGHTPAGER_OPERATIONS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10)
                          : static_cast<uint64_t>(cases(40'000, 6'000));
}

// What eight threads do to memory that is one's own in turns, as an engine does to its blocks; a
// model in plain memory says what every word has to be.
class OwnedSlices {
 public:
  OwnedSlices(Pager& pager, std::byte* memory, uint64_t slice_bytes, uint64_t chunk_bytes,
              const PatternFile& file)
      : pager_(pager),
        memory_(memory),
        slice_bytes_(slice_bytes),
        chunk_bytes_(chunk_bytes),
        file_(file) {}

  /// One thread's work on its own slice. Returns how many words were not as they had to be.
  uint64_t work(uint64_t slice, uint64_t operations) {
    std::mt19937_64 random(slice * 7919 + 1);
    std::byte* const begin = memory_ + slice * slice_bytes_;
    std::vector<uint64_t> model(slice_bytes_ / step_bytes);
    const uint64_t per_chunk = chunk_bytes_ / step_bytes;
    const uint64_t chunks = model.size() / per_chunk;
    uint64_t near = 0;
    uint64_t wrong = 0;
    const auto at = [&](uint64_t i) -> volatile uint64_t& {
      return *reinterpret_cast<volatile uint64_t*>(begin + i * step_bytes);
    };
    for (uint64_t done = 0; done < operations; ++done) {
      // Mostly near by, or the disk alone would be tested.
      if (random() % 32 == 0) near = random() % chunks;
      const uint64_t i = near * per_chunk + random() % per_chunk;
      const uint64_t kind = random() % 2000;
      if (kind < 1000) {
        wrong += at(i) == model[i] ? 0 : 1;
      } else if (kind < 1980) {
        at(i) = model[i] = random();
      } else if (kind < 1984) {
        free_part(random, begin, model);
      } else if (kind < 1988) {
        read_part(random, begin, model);
      } else if (kind < 1992) {
        wrong += move_part(random, at, model);
      } else if (kind < 1993) {
        pager_.drop();
      } else {
        for (uint64_t k = i; k < std::min<uint64_t>(i + 64, model.size()); ++k) {
          wrong += at(k) == model[k] ? 0 : 1;
        }
      }
    }
    for (uint64_t i = 0; i < model.size(); ++i) wrong += at(i) == model[i] ? 0 : 1;
    return wrong;
  }

 private:
  static constexpr uint64_t step_bytes = 4096;
  using Model = std::vector<uint64_t>;

  /// A range of the model's words.
  template <typename Random>
  static Span range_in(Random& random, const Model& model) {
    const uint64_t begin = random() % model.size();
    return {begin, begin + 1 + random() % (model.size() - begin)};
  }

  /// free(): what lies in whole chunks is zeros, if they could be taken out.
  template <typename Random>
  void free_part(Random& random, std::byte* begin, Model& model) {
    const Span part = range_in(random, model);
    const bool is_forgotten =
        pager_.forget(begin + part.begin * step_bytes, part.length_bytes() * step_bytes);
    const uint64_t per_chunk = chunk_bytes_ / step_bytes;
    for (uint64_t first = round_up(part.begin, per_chunk); first + per_chunk <= part.end;
         first += per_chunk) {
      bool is_zero = true;
      for (uint64_t i = first; i < first + per_chunk; ++i) {
        is_zero = is_zero && *reinterpret_cast<volatile uint64_t*>(begin + i * step_bytes) == 0;
      }
      // A chunk that could not be taken out is as before.
      if (is_forgotten || is_zero) std::fill_n(model.begin() + first, per_chunk, 0);
    }
  }

  /// read(): of a file, from a byte on that no sector begins at.
  template <typename Random>
  void read_part(Random& random, std::byte* begin, Model& model) {
    const uint64_t per_chunk = chunk_bytes_ / step_bytes;
    const uint64_t chunks = model.size() / per_chunk;
    const uint64_t first = random() % chunks;
    const uint64_t count = 1 + random() % std::min<uint64_t>(chunks - first, 4);
    const uint64_t offset_bytes = random() % 512 * 8;
    const auto taken = pager_.read_lazily({.address = begin + first * chunk_bytes_,
                                           .length_bytes = count * chunk_bytes_,
                                           .link = file_.path(),
                                           .file = *io::settled_identity_of(file_.path()),
                                           .name = file_.path(),
                                           .offset_bytes = offset_bytes});
    for (uint64_t i = 0; i < *taken / step_bytes; ++i) {
      model[first * per_chunk + i] = word_at(offset_bytes + i * step_bytes);
    }
  }

  /// realloc(): words go elsewhere.
  template <typename Random, typename At>
  static uint64_t move_part(Random& random, At at, Model& model) {
    const Span from = range_in(random, model);
    const uint64_t count = std::min<uint64_t>(from.length_bytes(), 100);
    const uint64_t to = random() % (model.size() - count + 1);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t value = at(from.begin + i);
      wrong += value == model[from.begin + i] ? 0 : 1;
      at(to + i) = model[to + i] = value;
    }
    return wrong;
  }

  Pager& pager_;
  std::byte* const memory_;
  const uint64_t slice_bytes_;
  const uint64_t chunk_bytes_;
  const PatternFile& file_;
};

uint64_t SpillingTest::work_of_eight_threads() {
  constexpr uint64_t threads = 8;
  const PatternFile file(16 * MiB);
  OwnedSlices slices(*pager_, memory_, bytes_ / threads, chunk_bytes(), file);
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> engine;
  for (uint64_t thread = 0; thread < threads; ++thread) {
    engine.emplace_back([&, thread] { wrong += slices.work(thread, operations() / threads); });
  }
  for (std::thread& thread : engine) thread.join();
  return wrong;
}

TEST_P(SpillingTest, EightThreadsDoAllKindsOfThingsAtRandom) {
  serve();
  EXPECT_EQ(work_of_eight_threads(), 0u);
  EXPECT_EQ(telemetry_->read_errors, 0u);
  EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
}

// The same while chunks are kept, and those of the run before are found: threads have the same
// random numbers.
TEST_P(SpillingTest, EightThreadsWhileChunksAreKept) {
  std::string folder = "kept.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  PagerOptions options;
  options.kept_folder = folder;
  for (int start = 1; start <= 2; ++start) {
    serve(spilled_bytes, options);
    EXPECT_EQ(work_of_eight_threads(), 0u);
    EXPECT_EQ(telemetry_->read_errors, 0u);
    EXPECT_EQ(telemetry_->spill_errors, 0u);
    EXPECT_LE(telemetry_->resident_bytes_max, spilled_window_bytes);
    pager_->remove(std::exchange(memory_, nullptr), bytes_);
  }
  pager_.reset();
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Mappers, SpillingTest,
                         ::testing::Values(MapperAndChunk{"move", 2 * MiB},
                                           MapperAndChunk{"move", 128 * KiB},
                                           MapperAndChunk{"collapse", 2 * MiB},
                                           MapperAndChunk{"collapse", 128 * KiB}),
                         name_of);

}  // namespace
}  // namespace weightpager
