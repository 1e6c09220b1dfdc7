// The whole pager on real userfaults and a real file: the right bytes, within the window, and an
// error instead of wrong bytes whatever goes wrong.
#include "pager/pager.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t stride_bytes = 64 * KiB + 8;  // visits every chunk at changing places

thread_local sigjmp_buf after_bus_error;

void leave_bus_error(int) { siglongjmp(after_bus_error, 1); }

template <typename Access>
bool raises(int signal_number, Access access) {
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = leave_bus_error;
  sigaction(signal_number, &action, &before);
  volatile bool is_raised = true;  // survives the jump
  if (sigsetjmp(after_bus_error, 1) == 0) {
    access();
    is_raised = false;
  }
  sigaction(signal_number, &before, nullptr);
  return is_raised;
}

void store(std::byte* address, uint64_t value) {
  *reinterpret_cast<volatile uint64_t*>(address) = value;
}

/// Whether touching the address raises SIGBUS.
bool raises_bus_error(const std::byte* address) {
  return raises(SIGBUS, [&] { (void)*reinterpret_cast<const volatile char*>(address); });
}

void expect_pass(const std::byte* region, const PatternFile& file) {
  for (uint64_t offset = 0; offset + 8 <= file.size_bytes(); offset += stride_bytes) {
    const uint64_t at = round_down(offset, 8);
    const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(region + at);
    ASSERT_EQ(word, word_at(at)) << "offset " << offset;
  }
}

INSTANTIATE_TEST_SUITE_P(Mappers, PagerTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

/// With mappers whose slots have memory before there are bytes, and whose regions each show their
/// own.
class OwnMemoryPagerTest : public PagerTest {};
constexpr MapperAndChunk mappers_with_own_memory[] = {
    {"move", 2 * MiB}, {"copy", 2 * MiB}, {"move", 128 * KiB}, {"copy", 128 * KiB}};
INSTANTIATE_TEST_SUITE_P(Mappers, OwnMemoryPagerTest, ::testing::ValuesIn(mappers_with_own_memory),
                         name_of);

TEST_P(PagerTest, ServesTheFilesBytesPassAfterPass) {
  PatternFile file(100 * MiB);
  const std::byte* region = map(file);
  for (int pass = 0; pass < 4; ++pass) expect_pass(region, file);
  EXPECT_LE(telemetry_->resident_bytes_max.load(), 32 * MiB);
  EXPECT_GT(telemetry_->evictions.load(), 0u);
  pager_->remove(const_cast<std::byte*>(region), file.size_bytes());
}

// The kernel takes its time for each of a few pieces, longer than a disk.
TEST_P(PagerTest, MemoryThatIsBeingMadeIsWaitedForAndNothingGoesMeanwhile) {
  for (const char* const policy : {"demand", "pin-stream"}) {
    PagerOptions options;
    options.policy = policy;
    options.before_memory = [](window::SlotId) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    telemetry_ = *telemetry::create("");
    PatternFile file(64 * MiB);
    start(file.size_bytes() * 11 / 10 + 8 * MiB, options);
    const std::byte* region = map(file);
    for (int pass = 0; pass < 2; ++pass) expect_pass(region, file);
    pager_->remove(const_cast<std::byte*>(region), file.size_bytes());
    EXPECT_EQ(telemetry_->read_bytes.load(), file.size_bytes()) << policy;
    EXPECT_EQ(telemetry_->evictions.load(), 0u) << policy;
  }
}

TEST_P(OwnMemoryPagerTest, AWindowThatGrowsServesAsBeforeUntilItsMemoryComes) {
  constexpr uint64_t window_bytes = 32 * MiB;
  std::atomic<bool> is_there{false};
  PagerOptions options;
  options.before_memory = [&](window::SlotId slot) {
    if (slot * chunk_bytes() >= window_bytes) is_there.wait(false);
  };
  start(window_bytes, options);
  PatternFile file(60 * MiB);
  const std::byte* region = map(file);
  expect_pass(region, file);
  EXPECT_EQ(pager_->resize(2 * window_bytes), 2 * window_bytes);
  for (int pass = 0; pass < 3; ++pass) expect_pass(region, file);
  EXPECT_LE(telemetry_->resident_bytes_max.load(), window_bytes);
  is_there = true;
  is_there.notify_all();
  while (telemetry_->resident_bytes.load() < 48 * MiB) expect_pass(region, file);
  pager_->remove(const_cast<std::byte*>(region), file.size_bytes());
  pager_.reset();  // is_there goes
}

TEST_P(PagerTest, ServesThreadsThatTouchAtRandom) {
  PatternFile file(80 * MiB);
  const std::byte* region = map(file);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 300; ++i) {
        const uint64_t offset = random() % (file.size_bytes() / 8) * 8;
        if (load(region + offset) != word_at(offset)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(telemetry_->resident_bytes_max.load(), 32 * MiB);
  pager_->remove(const_cast<std::byte*>(region), file.size_bytes());
}

TEST_P(PagerTest, EndOfFileIsAsWithMmap) {
  PatternFile file(9 * MiB + 5000);
  const std::byte* region = map(file, 0, 9 * MiB + 5 * os_page_bytes);
  EXPECT_EQ(load(region + 9 * MiB + 4096), word_at(9 * MiB + 4096));
  for (uint64_t offset = 9 * MiB + 5000; offset < 9 * MiB + 8192; ++offset) {
    ASSERT_EQ(region[offset], std::byte{0});
  }
  EXPECT_TRUE(raises_bus_error(region + 9 * MiB + 8192));
  pager_->remove(const_cast<std::byte*>(region), 9 * MiB + 5 * os_page_bytes);
}

TEST_P(PagerTest, MapsFromAnyPageOn) {
  PatternFile file(40 * MiB);
  const uint64_t offset = 3 * MiB + 3 * os_page_bytes;
  const std::byte* region = map(file, offset, 17 * MiB + os_page_bytes);
  for (uint64_t at = 0; at < 17 * MiB; at += 4096) {
    ASSERT_EQ(load(region + at), word_at(offset + at));
  }
  pager_->remove(const_cast<std::byte*>(region), 17 * MiB + os_page_bytes);
}

TEST_P(PagerTest, SlotsDoNotLeakBytesOfAnotherFile) {
  PatternFile large(64 * MiB);
  PatternFile small(2 * MiB + 100);
  std::byte* one = map(large);
  for (uint64_t at = 0; at < large.size_bytes(); at += 4096) load(one + at);
  std::byte* two = map(small);
  EXPECT_EQ(load(two + 2 * MiB + 96 - 8), word_at(2 * MiB + 88));
  for (uint64_t at = 2 * MiB + 100; at < 2 * MiB + 4096; ++at) ASSERT_EQ(two[at], std::byte{0});
  pager_->remove(one, large.size_bytes());
  pager_->remove(two, small.size_bytes());
}

TEST_P(PagerTest, AFileThatShrinksGivesBusErrorsAndNoZeros) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  EXPECT_EQ(load(region), word_at(0));
  ASSERT_EQ(truncate(file.path().c_str(), 10 * MiB), 0);
  EXPECT_TRUE(raises_bus_error(region + 60 * MiB));
  EXPECT_TRUE(raises_bus_error(region + 60 * MiB + 4096)) << "and again";
  EXPECT_EQ(load(region + 5 * MiB), word_at(5 * MiB));
  EXPECT_GT(telemetry_->read_errors.load(), 0u);
  pager_->remove(region, file.size_bytes());
}

uint64_t old_words(const std::byte* region, uint64_t size_bytes) {
  uint64_t old = 0;
  for (uint64_t at = 0; at < size_bytes; at += 64 * KiB) {
    const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(region + at);
    EXPECT_TRUE(word == word_at(at) || word == ~word_at(at)) << "offset " << at;
    if (word == word_at(at)) ++old;
  }
  return old;
}

// All of it is in memory when the file is changed, or a part.
TEST_P(PagerTest, WhatIsMappedAfterAChangeIsTheFileAsItIsThen) {
  for (const uint64_t window_bytes : {32 * MiB, 160 * MiB}) {
    start(window_bytes);
    PatternFile file(60 * MiB);
    std::byte* const older = map(file);
    expect_pass(older, file);
    file.turn_over();
    std::byte* const newer = map(file);
    EXPECT_EQ(old_words(newer, file.size_bytes()), 0u);
    std::byte* const writable = map_writable(file);
    EXPECT_EQ(old_words(writable, file.size_bytes()), 0u);
    EXPECT_EQ(old_words(newer, file.size_bytes()), 0u);
    // The older one is read anew, sooner or later: nothing hangs, nothing else is in it.
    while (old_words(older, file.size_bytes()) > 0) std::this_thread::yield();
    for (std::byte* const region : {older, newer, writable}) {
      pager_->remove(region, file.size_bytes());
    }
  }
}

TEST_P(PagerTest, AFileThatIsLeftAloneIsReadOnceForAllItsMappings) {
  start(160 * MiB);
  PatternFile file(60 * MiB);
  std::byte* const first = map(file);
  std::byte* const second = map(file);
  for (int pass = 0; pass < 2; ++pass) {
    expect_pass(first, file);
    expect_pass(second, file);
  }
  EXPECT_LE(telemetry_->read_bytes.load(), file.size_bytes());
  pager_->remove(first, file.size_bytes());
  pager_->remove(second, file.size_bytes());
}

TEST_P(PagerTest, PartsCanBeUnmapped) {
  PatternFile file(48 * MiB);
  std::byte* region = map(file);
  for (uint64_t at = 0; at < 8 * MiB; at += 4096) load(region + at);
  // The head, as llama.cpp does; a hole inside a chunk; whole chunks; the tail.
  pager_->remove(region, 11 * os_page_bytes);
  pager_->remove(region + 3 * MiB, 2 * os_page_bytes);
  pager_->remove(region + 10 * MiB, 5 * MiB);
  pager_->remove(region + 47 * MiB, MiB);
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t at = 11 * os_page_bytes; at < 47 * MiB; at += 4096) {
      const bool is_hole =
          (at >= 3 * MiB && at < 3 * MiB + 2 * os_page_bytes) || (at >= 10 * MiB && at < 15 * MiB);
      if (is_hole) continue;
      ASSERT_EQ(load(region + at), word_at(at)) << at;
    }
  }
  // The holes are free for others, and stay theirs.
  void* other = mmap(region + 11 * MiB, MiB, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(other, region + 11 * MiB);
  *static_cast<volatile char*>(other) = 1;
  pager_->remove(region, 10 * MiB);
  pager_->remove(region + 15 * MiB, 33 * MiB);
  EXPECT_EQ(*static_cast<volatile char*>(other), 1);
  munmap(other, MiB);
}

TEST_P(PagerTest, NoAccessIsASegmentationFaultUntilItIsGivenBack) {
  PatternFile file(40 * MiB);
  std::byte* region = map(file);
  std::byte* writable = map_writable(file);
  store(writable + 10 * MiB, 77);
  const uint64_t begin = 9 * MiB + 5 * os_page_bytes;
  const uint64_t length = 8 * MiB + 3 * os_page_bytes;
  for (uint64_t at = 0; at < 12 * MiB; at += MiB) load(region + at);
  for (int round = 0; round < 3; ++round) {
    for (std::byte* it : {region, writable}) {
      pager_->protect(it + begin, length, false);
      for (uint64_t at = begin; at < begin + length; at += MiB / 2) {
        ASSERT_TRUE(raises(SIGSEGV, [&] { load(it + at); })) << at;
      }
      EXPECT_EQ(load(it + begin - os_page_bytes), word_at(begin - os_page_bytes));
      EXPECT_EQ(load(it + begin + length), word_at(begin + length));
    }
    // Chunks come and go meanwhile, also those that are hidden.
    pager_->advise(region + begin, length, Advice::will_need);
    for (uint64_t at = 20 * MiB; at < file.size_bytes(); at += os_page_bytes) {
      ASSERT_EQ(load(region + at), word_at(at));
    }
    // A write to what is not hidden of a chunk that is partly hidden shows nothing of the rest.
    EXPECT_TRUE(raises(SIGSEGV, [&] { store(region + begin - os_page_bytes, 1); }));
    EXPECT_TRUE(raises(SIGSEGV, [&] { load(region + begin); }));
    for (std::byte* it : {region, writable}) {
      pager_->protect(it + begin, length, true);
      for (uint64_t at = 0; at < file.size_bytes(); at += os_page_bytes) {
        const bool is_written = it == writable && at == 10 * MiB;
        ASSERT_EQ(load(it + at), is_written ? 77 : word_at(at)) << at;
      }
    }
    EXPECT_TRUE(raises(SIGSEGV, [&] { store(region + begin, 1); }));
  }
  pager_->remove(region, file.size_bytes());
  pager_->remove(writable, file.size_bytes());
}

// What is left of a region is served on when another one is put into its hole.
TEST_P(PagerTest, ARegionMayLieInTheHoleOfAnother) {
  PatternFile file(60 * MiB);
  std::byte* region = map(file);
  pager_->remove(region, 20 * MiB);
  std::vector<std::byte*> others;
  bool is_in_hole = false;
  while (!is_in_hole && others.size() < 100) {
    others.push_back(map(file, 0, 4 * MiB));
    is_in_hole = others.back() > region && others.back() < region + 20 * MiB;
  }
  ASSERT_TRUE(is_in_hole);
  for (uint64_t at = 20 * MiB; at < file.size_bytes(); at += MiB) {
    ASSERT_EQ(load(region + at), word_at(at));
  }
  for (std::byte* other : others) {
    EXPECT_EQ(load(other + 3 * MiB), word_at(3 * MiB));
    pager_->remove(other, 4 * MiB);
  }
  EXPECT_EQ(load(region + 30 * MiB), word_at(30 * MiB));
  pager_->remove(region + 20 * MiB, 40 * MiB);
}

TEST_P(PagerTest, UnmappingUnderAWaiterLetsItFault) {
  PatternFile file(64 * MiB);
  for (int round = 0; round < 10; ++round) {
    std::byte* region = map(file);
    std::atomic<bool> is_reading{false};
    std::thread toucher([&] {
      is_reading = true;
      // Touches what is about to vanish; SIGSEGV is what mmap gives, so look by a system call.
      int pipes[2];
      ASSERT_EQ(pipe(pipes), 0);
      (void)!write(pipes[1], region + 40 * MiB, 1);
      close(pipes[0]);
      close(pipes[1]);
    });
    while (!is_reading) std::this_thread::yield();
    pager_->remove(region, file.size_bytes());
    toucher.join();
  }
}

TEST_P(PagerTest, RegionsComeAndGo) {
  PatternFile file(20 * MiB);
  for (int round = 0; round < 12; ++round) {
    std::byte* a = map(file);
    std::byte* b = map(file);
    // They share their chunks; each touch of the other one moves a chunk over.
    for (uint64_t at = 0; at < file.size_bytes(); at += 40 * KiB) {
      ASSERT_EQ(load(a + at), word_at(at));
      if (at % (400 * KiB) == 0) {
        ASSERT_EQ(load(b + at), word_at(at));
      }
    }
    pager_->remove(a, file.size_bytes());
    pager_->remove(b, file.size_bytes());
  }
  EXPECT_LE(telemetry_->resident_bytes_max.load(), 32 * MiB);
}

TEST_P(PagerTest, ClosingEveryDescriptorChangesNothing) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  // In a child with the pager's thread in it this would end the test's own output, so: the
  // descriptors of this process, which must not include the pager's.
  for (int fd = 3; fd < 200; ++fd) {
    char link[64];
    char target[256];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    EXPECT_EQ(std::string(target).find("userfaultfd"), std::string::npos);
    EXPECT_EQ(std::string(target).find("io_uring"), std::string::npos);
    EXPECT_EQ(std::string(target).find("pattern_"), std::string::npos);
  }
  EXPECT_EQ(load(region + 50 * MiB), word_at(50 * MiB));
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, AForkedChildHasNoRegionInsteadOfZeros) {
  PatternFile file(16 * MiB);
  std::byte* region = map(file);
  EXPECT_EQ(load(region + 4096), word_at(4096));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(load(region + 4096) == word_at(4096) ? 3 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  // The parent's chunks can still be moved in and out.
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += 4096) {
      ASSERT_EQ(load(region + at), word_at(at));
    }
  }
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, SystemCallsMayReadWeights) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  for (uint64_t at = 0; at < file.size_bytes(); at += 3 * MiB) {
    uint64_t word = 0;
    ASSERT_EQ(write(pipes[1], region + at, 8), 8);
    ASSERT_EQ(read(pipes[0], &word, 8), 8);
    EXPECT_EQ(word, word_at(at));
  }
  close(pipes[0]);
  close(pipes[1]);
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, AdviceBringsChunksInAndResidencyShowsThem) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  std::vector<unsigned char> pages(file.size_bytes() / os_page_bytes);
  pager_->residency(region, file.size_bytes(), pages.data());
  EXPECT_EQ(std::count(pages.begin(), pages.end(), 1), 0);
  pager_->advise(region + 40 * MiB, 8 * MiB, Advice::will_need);
  const uint64_t demand_before = telemetry_->faults_demand.load();
  while (telemetry_->read_bytes.load() < 8 * MiB) std::this_thread::yield();
  EXPECT_EQ(load(region + 42 * MiB), word_at(42 * MiB));
  EXPECT_EQ(telemetry_->faults_demand.load(), demand_before);
  pager_->residency(region, file.size_bytes(), pages.data());
  EXPECT_EQ(pages[42 * MiB / os_page_bytes], 1);
  pager_->advise(region + 40 * MiB, 8 * MiB, Advice::consumed);
  EXPECT_EQ(load(region + 46 * MiB), word_at(46 * MiB));
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, SignalsWhileWaitingChangeNothing) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  std::atomic<bool> is_over{false};
  const pthread_t toucher = pthread_self();
  std::thread storm([&] {
    while (!is_over) {
      pthread_kill(toucher, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += 256 * KiB) {
      ASSERT_EQ(load(region + at), word_at(at));
    }
  }
  is_over = true;
  storm.join();
  pager_->remove(region, file.size_bytes());
}

// A direct write pins the pages that it writes from: those chunks cannot be moved out just then.
TEST_P(PagerTest, WeightsThatADirectWriteSendsAreTheRightOnes) {
  PatternFile file(90 * MiB);
  PatternFile sink(8 * MiB);
  std::byte* region = map(file);
  const int fd = open(sink.path().c_str(), O_RDWR | O_DIRECT);
  ASSERT_GE(fd, 0);
  std::atomic<bool> is_over{false};
  std::thread streamer([&] {
    for (uint64_t at = 0; !is_over; at = (at + MiB) % file.size_bytes()) load(region + at);
  });
  for (uint64_t round = 0; round < 40; ++round) {
    const uint64_t from = round * 2 * MiB;
    ASSERT_EQ(pwrite(fd, region + from, 2 * MiB, 0), ssize_t{2 * MiB});
    std::vector<uint64_t> words(2 * MiB / 8);
    std::byte* aligned = nullptr;
    ASSERT_EQ(posix_memalign(reinterpret_cast<void**>(&aligned), 4096, 2 * MiB), 0);
    ASSERT_EQ(pread(fd, aligned, 2 * MiB, 0), ssize_t{2 * MiB});
    for (uint64_t at = 0; at < 2 * MiB; at += 8) {
      ASSERT_EQ(load(aligned + at), word_at(from + at)) << from + at;
    }
    free(aligned);
  }
  is_over = true;
  streamer.join();
  close(fd);
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, WritingToAReadOnlyRegionIsASegmentationFault) {
  PatternFile file(64 * MiB);
  std::byte* region = map(file);
  EXPECT_TRUE(raises(SIGSEGV, [&] { store(region + 4096, 7); }));
  load(region + 8 * MiB);
  EXPECT_TRUE(raises(SIGSEGV, [&] { store(region + 8 * MiB, 7); }));
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += 4096) {
      ASSERT_EQ(load(region + at), word_at(at)) << at;
    }
  }
  EXPECT_TRUE(raises(SIGSEGV, [&] { store(region + 4096, 7); }));
  EXPECT_EQ(telemetry_->written_bytes.load(), 0u);
  pager_->remove(region, file.size_bytes());
}

TEST_P(PagerTest, AWritableRegionKeepsWhatTheEngineWrote) {
  PatternFile file(100 * MiB + 12345);
  std::byte* region = map_writable(file);
  std::byte* other = map(file);
  for (uint64_t at = 0; at < file.size_bytes(); at += 10 * MiB) {
    store(region + round_down(at, 8), at + 1);
  }
  for (int pass = 0; pass < 4; ++pass) {
    for (uint64_t at = 0; at + 8 <= file.size_bytes(); at += 4096) {
      const uint64_t expected = at % (10 * MiB) == 0 ? at + 1 : word_at(at);
      ASSERT_EQ(load(region + at), expected) << at;
      if (at % (MiB * 5) == 0) {
        ASSERT_EQ(load(other + at), word_at(at)) << at;
      }
    }
  }
  EXPECT_LE(telemetry_->resident_bytes_max.load(), 32 * MiB);
  const auto spans = pager_->written_spans();
  EXPECT_EQ(spans.size(), 11u);
  // Shared memory becomes the engine's own by the page, other memory by the chunk.
  const bool is_shared = mapper() == "collapse" || mapper() == "module";
  const uint64_t unit_bytes = is_shared ? os_page_bytes : chunk_bytes();
  EXPECT_GE(telemetry_->written_bytes.load(), 10 * unit_bytes);
  EXPECT_LE(telemetry_->written_bytes.load(), 11 * unit_bytes);
  // Given up, the file's bytes show again: a page of one chunk, all of another.
  pager_->advise(region, 4096, Advice::discard);
  pager_->advise(region + 10 * MiB, 2 * MiB, Advice::discard);
  EXPECT_EQ(load(region), word_at(0));
  EXPECT_EQ(load(region + 10 * MiB), word_at(10 * MiB));
  EXPECT_EQ(load(region + 20 * MiB), 20 * MiB + 1);
  // Page by page of one chunk, with a look in between.
  pager_->advise(region + 20 * MiB, 4096, Advice::discard);
  EXPECT_EQ(load(region + 20 * MiB), word_at(20 * MiB));
  pager_->advise(region + 20 * MiB + 4096, 4096, Advice::discard);
  EXPECT_EQ(load(region + 20 * MiB + 4096), word_at(20 * MiB + 4096));
  EXPECT_EQ(load(region + 20 * MiB), word_at(20 * MiB));
  store(region, 5);
  EXPECT_EQ(load(region), 5u);
  pager_->remove(region, file.size_bytes());
  pager_->remove(other, file.size_bytes());
}

// What the engine puts where it unmapped a part of a chunk is its own, whatever it says of the
// chunk.
TEST_P(PagerTest, WhatWasUnmappedIsNotGivenBackWithWhatWasWritten) {
  PatternFile file(40 * MiB);
  std::byte* region = map_writable(file);
  const uint64_t hole_bytes = 8 * os_page_bytes;
  std::byte* const hole = region + 4 * MiB + 16 * os_page_bytes;
  store(region + 4 * MiB, 1);
  store(hole, 2);
  pager_->remove(hole, hole_bytes);
  ASSERT_EQ(mmap(hole, hole_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0),
            hole);
  store(hole + os_page_bytes, 3);
  // By the chunk: before the hole and behind it. By the page: the one that is left.
  const bool is_shared = mapper() == "collapse" || mapper() == "module";
  EXPECT_EQ(pager_->written_spans().size(), is_shared ? 1u : 2u);

  pager_->advise(region + 4 * MiB, 2 * MiB, Advice::discard);
  EXPECT_TRUE(pager_->written_spans().empty());
  EXPECT_EQ(load(hole + os_page_bytes), 3u);
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t at = 0; at < file.size_bytes(); at += os_page_bytes) {
      const std::byte* const page = region + at;
      const bool is_in_hole = page >= hole && page < hole + hole_bytes;
      ASSERT_TRUE(is_in_hole || load(page) == word_at(at)) << at;
    }
  }
  EXPECT_EQ(load(hole + os_page_bytes), 3u);

  // Written again and unmapped in two parts, nothing is left of the chunk: the pager ends in order.
  store(region + 4 * MiB, 4);
  const uint64_t cut = 4 * MiB + chunk_bytes() / 4;
  pager_->remove(region, cut);
  pager_->remove(region + cut, file.size_bytes() - cut);
}

TEST_P(PagerTest, ThreadsWriteWhileChunksComeAndGo) {
  PatternFile file(80 * MiB);
  std::byte* region = map_writable(file);
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      for (int i = 0; i < 3000; ++i) {
        const uint64_t at = random() % (file.size_bytes() / 4096) * 4096 + number * 8;
        // Half of the file is written to, each thread its own words.
        if (at < file.size_bytes() / 2) {
          const uint64_t before = load(region + at);
          ASSERT_TRUE(before == word_at(at) || before == ~at) << at;
          store(region + at, ~at);
          ASSERT_EQ(load(region + at), ~at);
        } else {
          ASSERT_EQ(load(region + at), word_at(at)) << at;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pager_->remove(region, file.size_bytes());
}

// Whatever lies over what: a copy for each region that shows a chunk would have no bound.
TEST_P(OwnMemoryPagerTest, RegionsThatOverlapTakeNoMoreThanTheWindow) {
  constexpr uint64_t region_bytes = 4 * MiB;
  constexpr uint64_t regions_count = 60;
  PatternFile file(64 * MiB);
  const auto offset_of = [&](uint64_t i) {
    return i * 53 * os_page_bytes % (file.size_bytes() - region_bytes);
  };
  std::vector<std::byte*> regions;
  for (uint64_t i = 0; i < regions_count; ++i) {
    regions.push_back(map(file, offset_of(i), region_bytes));
  }
  std::vector<unsigned char> pages(region_bytes / os_page_bytes);
  uint64_t shown_bytes_max = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < regions_count; ++i) {
      for (uint64_t at = 0; at < region_bytes; at += 61 * os_page_bytes) {
        ASSERT_EQ(load(regions[i] + at), word_at(offset_of(i) + at));
      }
      uint64_t shown_bytes = 0;
      for (std::byte* const region : regions) {
        pager_->residency(region, region_bytes, pages.data());
        for (const unsigned char page : pages) shown_bytes += page != 0 ? os_page_bytes : 0;
      }
      shown_bytes_max = std::max(shown_bytes_max, shown_bytes);
    }
  }
  // A page more for each border; residency() tells of chunks, and takes a region's part for shown.
  EXPECT_LE(shown_bytes_max, 32 * MiB + 32 * MiB / 16 + 32 * MiB / chunk_bytes() * os_page_bytes);
  for (std::byte* const region : regions) pager_->remove(region, region_bytes);
}

TEST_P(PagerTest, AHundredMappingsOfOneFileShareItsChunks) {
  PatternFile file(48 * MiB);
  std::vector<std::byte*> whole;
  for (int i = 0; i < 50; ++i) whole.push_back(i % 2 == 0 ? map(file) : map_writable(file));
  // As ONNX Runtime does: each tensor by itself, from the page that it begins in.
  struct Part {
    std::byte* address;
    uint64_t offset_bytes, length_bytes;
  };
  std::vector<Part> parts;
  for (uint64_t at = 0; at + 900 * KiB < file.size_bytes(); at += 900 * KiB) {
    parts.push_back({map_writable(file, at, 900 * KiB), at, 900 * KiB});
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (const Part& part : parts) {
      for (uint64_t at = 0; at < part.length_bytes; at += 64 * KiB) {
        ASSERT_EQ(load(part.address + at), word_at(part.offset_bytes + at));
      }
    }
  }
  // Parts that lie in one chunk came with one read.
  EXPECT_LE(telemetry_->read_bytes.load(), 3 * file.size_bytes());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < whole.size(); i += 7) {
    threads.emplace_back([&, i] {
      for (uint64_t at = 0; at < file.size_bytes(); at += MiB) {
        ASSERT_EQ(load(whole[i] + at), word_at(at)) << i << " " << at;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(telemetry_->resident_bytes_max.load(), 32 * MiB);
  for (std::byte* region : whole) pager_->remove(region, file.size_bytes());
  for (const Part& part : parts) {
    ASSERT_EQ(load(part.address), word_at(part.offset_bytes));
    pager_->remove(part.address, part.length_bytes);
  }
}

TEST_P(PagerTest, RefusesAFileThatIsNotThere) {
  RegionRequest request;
  request.path = request.name = "no-such-model.gguf";
  request.length_bytes = 4 * MiB;
  const auto address = pager_->add_region(request);
  ASSERT_FALSE(address);
  EXPECT_NE(address.error().message.find("no-such-model.gguf"), std::string::npos);
}

}  // namespace
}  // namespace weightpager
