// Disks that fail, lie about their size, take seconds, or never answer, and files that are cut off:
// who touches what cannot be read gets SIGBUS, everybody else the right bytes, and nobody zeros.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <random>
#include <string_view>
#include <thread>

#include "tests/io/faulty_reader.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

using io::Fault;
using io::FaultPlan;

thread_local sigjmp_buf after_signal;

/// The signal that loading the word raises, or 0 and the word.
int signal_of_load(const std::byte* address, uint64_t& word) {
  const int signal = sigsetjmp(after_signal, 1);
  if (signal == 0) word = *reinterpret_cast<const volatile uint64_t*>(address);
  return signal;
}

class FaultsTest : public PagerTest {
 protected:
  void SetUp() override {
    telemetry_ = *telemetry::create("");
    struct sigaction action = {};
    action.sa_handler = [](int signal) { siglongjmp(after_signal, signal); };
    sigaction(SIGBUS, &action, &before_[0]);
    sigaction(SIGSEGV, &action, &before_[1]);
    WP_SKIP_FOR(lack_for_mapper(mapper()));
  }
  void TearDown() override {
    sigaction(SIGBUS, &before_[0], nullptr);
    sigaction(SIGSEGV, &before_[1], nullptr);
  }

  void start_with(FaultPlan plan) {
    PagerOptions options;
    options.window_bytes = 32 * MiB;
    options.mapper = mapper();
    options.chunk_bytes = chunk_bytes();
    options.telemetry = telemetry_;
    options.open_reader =
        [this, plan](const io::ReaderOptions& wanted) -> Result<std::unique_ptr<io::Reader>> {
      auto real = io::open_pread_reader(wanted);
      if (!real) return real;
      auto faulty = std::make_unique<io::FaultyReader>(std::move(*real), wanted.reads_max, plan);
      reader_ = faulty.get();
      return faulty;
    };
    pager_ = started(options);
  }

  void unmap(std::byte* region, const PatternFile& file) {
    pager_->remove(region, file.size_bytes());
  }

  /// Every page from `begin` on: its word, or SIGBUS where `may_fail` allows it. Returns how many
  /// pages raised SIGBUS.
  template <typename MayFail>
  static size_t check(const std::byte* region, uint64_t begin, uint64_t end, MayFail may_fail) {
    size_t refused = 0;
    for (uint64_t at = begin; at < end; at += os_page_bytes) {
      uint64_t word = 0;
      const int signal = signal_of_load(region + at, word);
      if (signal == 0) {
        EXPECT_EQ(word, word_at(at)) << "offset " << at;
        continue;
      }
      EXPECT_EQ(signal, SIGBUS);
      EXPECT_TRUE(may_fail(at)) << "offset " << at;
      ++refused;
    }
    return refused;
  }

  static bool never(uint64_t) { return false; }
  static bool always(uint64_t) { return true; }

  std::atomic<io::FaultyReader*> reader_{nullptr};

 private:
  struct sigaction before_[2];
};

INSTANTIATE_TEST_SUITE_P(Mappers, FaultsTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

constexpr uint64_t bad_offset = 20 * MiB;

FaultPlan at_bad_chunk(Fault fault) {
  return [fault](uint64_t, const io::Read& read) {
    const bool is_in =
        read.offset_bytes <= bad_offset && bad_offset < read.offset_bytes + read.length_bytes;
    return is_in ? fault : Fault{};
  };
}

TEST_P(FaultsTest, AFailingReadIsABusErrorForItsChunkOnly) {
  PatternFile file(64 * MiB);
  start_with(at_bad_chunk({.kind = Fault::Kind::error, .error_number = EIO}));
  if (!pager_) return;
  std::byte* region = map(file);
  for (int pass = 0; pass < 3; ++pass) {
    const size_t refused = check(region, 0, file.size_bytes(), [](uint64_t at) {
      return round_down(at, chunk_bytes()) == bad_offset;
    });
    EXPECT_EQ(refused, chunk_bytes() / os_page_bytes);
  }
  EXPECT_EQ(telemetry_->read_errors.load(), 1u);
  unmap(region, file);
}

TEST_P(FaultsTest, WhenNothingCanBeReadEveryTouchIsABusError) {
  PatternFile file(40 * MiB);
  start_with([](uint64_t, const io::Read&) {
    return Fault{.kind = Fault::Kind::error, .error_number = ENODEV};
  });
  if (!pager_) return;
  std::byte* region = map(file);
  EXPECT_EQ(check(region, 0, file.size_bytes(), always), file.size_bytes() / os_page_bytes);
  unmap(region, file);
}

TEST_P(FaultsTest, ADeviceThatIsSmallerThanItsFileGivesNoZeros) {
  constexpr uint64_t end = 30 * MiB + 8192;
  PatternFile file(64 * MiB);
  start_with(io::device_ends_at(end));
  if (!pager_) return;
  std::byte* region = map(file);
  for (int pass = 0; pass < 2; ++pass) {
    const size_t refused = check(region, 0, file.size_bytes(),
                                 [](uint64_t at) { return at >= round_down(end, chunk_bytes()); });
    EXPECT_GE(refused, (file.size_bytes() - end) / os_page_bytes);
  }
  unmap(region, file);
}

TEST_P(FaultsTest, WhoWaitsLongerThanASecondIsToldWhatForOnce) {
  PatternFile file(64 * MiB);
  // Before the pager's thread takes its own descriptors.
  testing::internal::CaptureStderr();
  start_with([](uint64_t number, const io::Read&) {
    return number < 2 ? Fault{.kind = Fault::Kind::late, .delay_ns = 1'400'000'000} : Fault{};
  });
  if (pager_) {
    std::byte* region = map(file);
    EXPECT_EQ(check(region, 0, file.size_bytes(), never), 0u);
    unmap(region, file);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (!pager_) return;
  const size_t line = said.find("the engine has waited for bytes 0 to ");
  EXPECT_NE(line, std::string::npos) << said;
  EXPECT_EQ(said.find("the engine has waited", line + 1), std::string::npos) << said;
}

TEST_P(FaultsTest, ReadsThatTakeTwoSecondsDelayAndChangeNothing) {
  PatternFile file(64 * MiB);
  // Two of the first pass, and one of a later one.
  start_with([](uint64_t number, const io::Read&) {
    const bool is_late = number == 1 || number == 8 || number == 40;
    return is_late ? Fault{.kind = Fault::Kind::late, .delay_ns = 2'000'000'000} : Fault{};
  });
  if (!pager_) return;
  std::byte* region = map(file);
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(check(region, 0, file.size_bytes(), never), 0u);
  unmap(region, file);
}

TEST_P(FaultsTest, AReadThatHangsStopsOnlyWhoNeedsIt) {
  PatternFile file(64 * MiB);
  start_with(at_bad_chunk({.kind = Fault::Kind::hang}));
  if (!pager_) return;
  std::byte* region = map(file);
  uint64_t word = 0;
  std::thread waiter([&] { word = load(region + bad_offset + 8 * 100); });
  // Small chunks that are read with it are as late as it is.
  const uint64_t beside = std::max<uint64_t>(512 * KiB, chunk_bytes()) - chunk_bytes();
  for (int pass = 0; pass < 3; ++pass) {
    check(region, 0, bad_offset - beside, never);
    check(region, bad_offset + chunk_bytes() + beside, file.size_bytes(), never);
  }
  reader_.load()->release_hung();
  waiter.join();
  EXPECT_EQ(word, word_at(bad_offset + 8 * 100));
  unmap(region, file);
}

TEST_P(FaultsTest, UnmappingFreesWhoWaitsForAReadThatHangs) {
  PatternFile file(64 * MiB);
  start_with(at_bad_chunk({.kind = Fault::Kind::hang}));
  if (!pager_) return;
  std::byte* region = map(file);
  std::atomic<int> signal{0};
  std::thread waiter([&] {
    uint64_t word = 0;
    signal = signal_of_load(region + bad_offset, word);
  });
  // Until the waiter is known to wait, or at least on its way.
  while (telemetry_->faults_demand.load() + telemetry_->faults_late.load() == 0) {
    std::this_thread::yield();
  }
  unmap(region, file);
  waiter.join();
  EXPECT_EQ(signal, SIGSEGV);

  // What the read left behind does not disturb the next region.
  reader_.load()->release_hung();
  PatternFile other(16 * MiB);
  std::byte* again = map(other);
  EXPECT_EQ(check(again, 0, other.size_bytes(), never), 0u);
  unmap(again, other);
}

TEST_P(FaultsTest, ThePagerEndsWhileAReadHangs) {
  PatternFile file(64 * MiB);
  start_with(at_bad_chunk({.kind = Fault::Kind::hang}));
  if (!pager_) return;
  std::byte* region = map(file);
  pager_->advise(region + bad_offset, chunk_bytes(), Advice::will_need);
  check(region, 0, bad_offset - MiB, never);
  unmap(region, file);
  pager_.reset();
}

/// A chunk of a writable region of which the engine has written some pages, and others are sealed
/// because the file was cut off while it was mapped; and then the engine gives up what it wrote
/// (MADV_DONTNEED): as far as the file goes its bytes are back, behind its end SIGBUS stays.
class CutOffFileTest : public FaultsTest {
 protected:
  static constexpr uint64_t chunk_at = 4 * MiB;
  static uint64_t chunk_end() { return chunk_at + chunk_bytes(); }
  static uint64_t middle() { return chunk_at + chunk_bytes() / 2; }
  static size_t pages(uint64_t bytes) { return bytes / os_page_bytes; }
  static constexpr uint64_t written_word = 42;

  void SetUp() override {
    FaultsTest::SetUp();
    if (IsSkipped()) return;
    start_with([](uint64_t, const io::Read&) { return Fault{}; });
    region_ = map_writable(file_);
  }
  void TearDown() override {
    if (pager_) unmap(region_, file_);
    FaultsTest::TearDown();
  }

  void cut_off_at(uint64_t size_bytes) {
    ASSERT_EQ(truncate(file_.path().c_str(), static_cast<off_t>(size_bytes)), 0);
  }
  void write_at(uint64_t at) { *reinterpret_cast<volatile uint64_t*>(region_ + at) = written_word; }
  void give_up(uint64_t begin, uint64_t end) {
    pager_->advise(region_ + begin, end - begin, Advice::discard);
  }
  /// The file's bytes from the chunk's begin up to `end`, SIGBUS behind it.
  void expect_chunk_ends_at(uint64_t end) {
    const size_t refused =
        check(region_, chunk_at, chunk_end(), [end](uint64_t at) { return at >= end; });
    EXPECT_EQ(refused, pages(chunk_end() - end));
  }

  /// Of a chunk that was read before the cut, and is read again: shared memory may still have it.
  void expect_refused(size_t refused_pages, uint64_t bytes) {
    const bool is_shared = mapper() == "collapse" || mapper() == "module";
    if (is_shared && refused_pages == 0) return;
    EXPECT_EQ(refused_pages, pages(bytes));
  }

  PatternFile file_{16 * MiB};
  std::byte* region_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Mappers, CutOffFileTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

TEST_P(CutOffFileTest, SealedThenWrittenThenGivenUp) {
  if (!pager_) return;
  const uint64_t end = chunk_at + chunk_bytes() / 4;
  cut_off_at(end);
  expect_chunk_ends_at(end);
  for (int time = 0; time < 2; ++time) {
    write_at(chunk_at + 3 * os_page_bytes);
    EXPECT_EQ(load(region_ + chunk_at + 3 * os_page_bytes), written_word);
    EXPECT_EQ(check(region_, end, chunk_end(), always), pages(chunk_end() - end));
    give_up(chunk_at, chunk_end());
    EXPECT_TRUE(pager_->written_spans().empty());
    expect_chunk_ends_at(end);
  }
}

TEST_P(CutOffFileTest, WrittenThenHalfSealedThenGivenUp) {
  if (!pager_) return;
  const uint64_t end = chunk_at + chunk_bytes() / 4;
  write_at(chunk_at);
  cut_off_at(end);
  give_up(middle(), chunk_end());
  expect_refused(check(region_, middle(), chunk_end(), always), chunk_end() - middle());
  EXPECT_EQ(load(region_ + chunk_at), written_word);  // what is the engine's own stays
  give_up(chunk_at, chunk_end());
  EXPECT_TRUE(pager_->written_spans().empty());
  EXPECT_EQ(check(region_, chunk_at, end, never), 0u);
  expect_refused(check(region_, end, chunk_end(), always), chunk_end() - end);
}

TEST_P(CutOffFileTest, GivenUpWhereNothingOfTheChunkCanBeReadAnyMore) {
  if (!pager_) return;
  write_at(chunk_at);
  cut_off_at(chunk_at);
  give_up(middle(), chunk_end());
  expect_refused(check(region_, middle(), chunk_end(), always), chunk_end() - middle());
  EXPECT_EQ(load(region_ + chunk_at), written_word);
  give_up(chunk_at, chunk_end());
  EXPECT_TRUE(pager_->written_spans().empty());
  expect_refused(check(region_, chunk_at, chunk_end(), always), chunk_bytes());
}

// The chunk has failed by the time that the engine gives up what it wrote there.
TEST_P(CutOffFileTest, WrittenThenSealedThenGivenUp) {
  if (!pager_) return;
  write_at(chunk_at);
  cut_off_at(chunk_at);
  // The pager lets go of the chunk when it has seen that the file was changed.
  uint64_t word = 0;
  while (signal_of_load(region_ + middle(), word) == 0) give_up(middle(), chunk_end());
  EXPECT_EQ(load(region_ + chunk_at), written_word);
  EXPECT_EQ(pager_->written_spans().size(), 1u);
  EXPECT_EQ(check(region_, middle(), chunk_end(), always), pages(chunk_end() - middle()));
  give_up(chunk_at, chunk_end());
  EXPECT_TRUE(pager_->written_spans().empty());
  EXPECT_EQ(check(region_, chunk_at, chunk_end(), always), pages(chunk_bytes()));
}

TEST_P(FaultsTest, WhateverHappensBytesAreRightOrRefused) {
  PatternFile file(96 * MiB);
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    start_with([random = std::make_shared<std::mt19937>(seed)](uint64_t, const io::Read& read) {
      switch ((*random)() % 20) {
        case 0:
          return Fault{.kind = Fault::Kind::error, .error_number = EIO, .length_bytes = 65536};
        case 1:
          return Fault{.kind = Fault::Kind::cut, .length_bytes = read.length_bytes / 2};
        case 2:
          return Fault{.kind = Fault::Kind::late, .delay_ns = 20'000'000};
        default:
          return Fault{};
      }
    });
    if (!pager_) return;
    std::byte* region = map(file);
    std::vector<std::thread> threads;
    std::atomic<size_t> refused{0};
    for (uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        const uint64_t begin = thread * (file.size_bytes() / 4);
        for (int pass = 0; pass < 2; ++pass) {
          refused += check(region, begin, begin + file.size_bytes() / 4, always);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(refused.load(), 0u);
    EXPECT_GT(telemetry_->read_errors.load(), 0u);
    unmap(region, file);
    pager_.reset();
  }
}

}  // namespace
}  // namespace weightpager
