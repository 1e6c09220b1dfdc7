// What both readers promise (pager/io/reader.h), tried on real files.
#include "pager/io/reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <random>
#include <thread>

#include "tests/io/both_readers.h"

namespace weightpager::io {
namespace {

using ReaderTest = BothReaders;
INSTANTIATE_BOTH_READERS(ReaderTest);

class Event {
 public:
  ~Event() { close(fd_); }
  int fd() const { return fd_; }
  void set() { ASSERT_EQ(eventfd_write(fd_, 1), 0); }
  void clear() {
    eventfd_t count;
    ASSERT_EQ(eventfd_read(fd_, &count), 0);
  }

 private:
  int fd_ = eventfd(0, EFD_CLOEXEC);
};

TEST_P(ReaderTest, BytesAreExactWhateverTheSplitting) {
  const PatternFile file(4 * MiB);
  const uint32_t lengths[] = {4 * KiB, 60 * KiB, 256 * KiB, 260 * KiB, 1 * MiB, 2 * MiB};
  const uint64_t offsets[] = {0, 4 * KiB, 256 * KiB, 1 * MiB - 4 * KiB, 2 * MiB};
  for (const uint32_t device_read_bytes : {12 * KiB, 64 * KiB, 256 * KiB, 2 * MiB}) {
    const auto reader = open({.device_read_bytes = device_read_bytes});
    for (const uint32_t length : lengths) {
      for (const uint64_t offset : offsets) expect_exact(*reader, file, offset, length);
    }
  }
}

TEST_P(ReaderTest, ABufferMayHaveNoMemoryYet) {
  constexpr uint32_t length_bytes = 2 * MiB;
  const PatternFile file(4 * MiB);
  const auto reader = open({.device_read_bytes = 256 * KiB});
  for (const bool gets_memory : {false, true}) {
    void* const fresh =
        mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(fresh, MAP_FAILED);
    const std::span buffer(static_cast<std::byte*>(fresh), length_bytes);
    const Completion completion = read_alone(*reader, {.tag = 9,
                                                       .fd = file.fd(),
                                                       .offset_bytes = 1 * MiB,
                                                       .length_bytes = length_bytes,
                                                       .buffer = buffer.data(),
                                                       .gets_memory = gets_memory});
    EXPECT_EQ(completion.error_number, 0);
    EXPECT_EQ(completion.length_bytes, length_bytes);
    EXPECT_EQ(first_difference(buffer, 1 * MiB), std::nullopt);
    munmap(fresh, length_bytes);
  }
}

TEST_P(ReaderTest, EndOfFileInEveryPieceGivesTheTrueCount) {
  constexpr uint32_t piece_bytes = 16 * KiB;
  const auto reader = open({.device_read_bytes = piece_bytes});
  for (uint64_t piece_begin = 0; piece_begin < 4 * piece_bytes; piece_begin += piece_bytes) {
    for (const uint64_t within : {0, 1, 511, 512, 4095, 4096, 4097, 9000, 16383}) {
      const PatternFile file(piece_begin + within);
      expect_exact(*reader, file, 0, 4 * piece_bytes);
    }
  }
}

TEST_P(ReaderTest, ReadsPastTheEndAreEmpty) {
  const PatternFile file(10'000);
  const auto reader = open({.device_read_bytes = 8 * KiB});
  for (const uint64_t offset : {12 * KiB, 64 * KiB, 1 * GiB}) {
    expect_exact(*reader, file, offset, 32 * KiB);
  }
}

TEST_P(ReaderTest, CachedFilesMayBeReadAtAnyOffset) {
  const PatternFile file(300'000);
  ASSERT_EQ(fcntl(file.fd(), F_SETFL, 0), 0);
  const auto reader = open({.device_read_bytes = 64 * KiB});
  for (const uint64_t offset : {0, 1, 4095, 65'537, 299'999, 300'000}) {
    for (const uint32_t length : {0, 1, 4097, 131'073}) expect_exact(*reader, file, offset, length);
  }
}

TEST_P(ReaderTest, ErrorsAreReportedOncePerRead) {
  const auto reader = open({.device_read_bytes = 4 * KiB});
  Buffer buffer(64 * KiB);
  Read read{.tag = 1, .length_bytes = 64 * KiB, .buffer = buffer.data()};

  read.fd = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  EXPECT_EQ(read_alone(*reader, read).error_number, EISDIR);
  close(read.fd);
  EXPECT_EQ(read_alone(*reader, read).error_number, EBADF);
}

TEST_P(ReaderTest, MisalignedDirectReadIsInvalid) {
  const PatternFile file(64 * KiB);
  Buffer buffer(8 * KiB);
  WP_SKIP_FOR(lack_unless(pread(file.fd(), buffer.data(), 4096, 1) < 0 && errno == EINVAL,
                          "the filesystem beside the build reads at any offset"));
  const auto reader = open({});
  const Completion completion = read_alone(
      *reader, {.fd = file.fd(), .offset_bytes = 1, .length_bytes = 4096, .buffer = buffer.data()});
  EXPECT_EQ(completion.error_number, EINVAL);
  EXPECT_EQ(completion.length_bytes, 0u);
}

TEST_P(ReaderTest, ManyReadsInRandomOrderArriveOnceEach) {
  constexpr uint32_t read_bytes = 64 * KiB;
  constexpr uint32_t reads = 500;
  constexpr uint32_t reads_max = 24;
  const PatternFile file(8 * MiB - 12'345);
  const auto reader = open({.reads_max = reads_max, .device_read_bytes = 16 * KiB});
  std::mt19937 random(20'240'501);
  std::uniform_int_distribution<uint64_t> any_page(0, file.size_bytes() / os_page_bytes);
  std::vector<uint64_t> offsets(reads);
  for (uint64_t& offset : offsets) offset = any_page(random) * os_page_bytes;

  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < reads; i++) buffers.emplace_back(read_bytes);
  std::vector<int> arrivals(reads);
  uint32_t started = 0;
  uint32_t finished = 0;
  while (finished < reads) {
    for (; started < reads && reader->reads_in_flight() < reads_max; started++) {
      reader->start({.tag = started,
                     .fd = file.fd(),
                     .offset_bytes = offsets[started],
                     .length_bytes = read_bytes,
                     .buffer = buffers[started].data()});
    }
    for (const Completion& completion : reader->wait(-1).completions) {
      const uint64_t offset = offsets.at(completion.tag);
      arrivals[completion.tag]++;
      finished++;
      EXPECT_EQ(completion.error_number, 0);
      ASSERT_EQ(completion.length_bytes, file.bytes_within(offset, read_bytes));
      EXPECT_EQ(first_difference(buffers[completion.tag].first(completion.length_bytes), offset),
                std::nullopt);
    }
  }
  EXPECT_EQ(arrivals, std::vector<int>(reads, 1));
  EXPECT_EQ(reader->reads_in_flight(), 0u);
}

TEST_P(ReaderTest, MorePiecesThanTheRingHasEntriesAreTakenOn) {
  const PatternFile file(2 * MiB);
  const auto reader = open({.reads_max = 4, .device_read_bytes = 4 * KiB});
  std::vector<Buffer> buffers;
  for (uint32_t tag = 0; tag < 4; tag++) {
    buffers.emplace_back(2 * MiB);
    reader->start(
        {.tag = tag, .fd = file.fd(), .length_bytes = 2 * MiB, .buffer = buffers[tag].data()});
  }
  EXPECT_EQ(finish_all(*reader).size(), 4u);
  for (const Buffer& buffer : buffers) {
    EXPECT_EQ(first_difference(buffer.first(2 * MiB), 0), std::nullopt);
  }
}

// Who started them may be gone by then.
TEST_P(ReaderTest, WhoOnlyLooksFindsWhatOthersHaveStarted) {
  const PatternFile file(1 << 20);
  constexpr uint32_t length_bytes = 64 << 10;
  constexpr uint64_t reads = 16;
  const auto reader = open({.is_of_one_thread = false});
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::thread([&] {
    for (uint64_t i = 0; i < reads; ++i) {
      buffers.push_back(std::make_unique<Buffer>(length_bytes));
      reader->start({.tag = i,
                     .fd = file.fd(),
                     .offset_bytes = i * length_bytes,
                     .length_bytes = length_bytes,
                     .buffer = buffers.back()->data()});
    }
    if (reader->wait(0).completions.size() > reads) ADD_FAILURE();
  }).join();
  while (reader->reads_in_flight() > 0) {
    for (const Completion& it : reader->wait(0).completions) EXPECT_EQ(it.error_number, 0);
  }
  for (uint64_t i = 0; i < reads; ++i) {
    EXPECT_EQ(first_difference(buffers[i]->first(length_bytes), i * length_bytes), std::nullopt);
  }
}

TEST_P(ReaderTest, TimeoutEndsTheWait) {
  const auto reader = open({});
  for (const int64_t timeout_ns : {0, 1, 2'000'000}) {
    const auto before = std::chrono::steady_clock::now();
    const Wakeup wakeup = reader->wait(timeout_ns);
    EXPECT_TRUE(wakeup.completions.empty());
    EXPECT_FALSE(wakeup.watched_fd_readable);
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::nanoseconds(timeout_ns));
  }
}

TEST_P(ReaderTest, WatchedFdWakesAsLongAsItIsReadable) {
  Event event;
  const auto reader = open({.watched_fd = event.fd()});
  EXPECT_FALSE(reader->wait(0).watched_fd_readable);
  for (int round = 0; round < 3; round++) {
    std::thread setter([&] { event.set(); });
    EXPECT_TRUE(reader->wait(-1).watched_fd_readable);
    EXPECT_TRUE(reader->wait(-1).watched_fd_readable) << "left unread, it wakes again";
    setter.join();
    event.clear();
    EXPECT_FALSE(reader->wait(0).watched_fd_readable || reader->wait(0).watched_fd_readable);
  }
}

TEST_P(ReaderTest, WatchedFdHidesNoCompletionNorTheOtherWayRound) {
  const PatternFile file(2 * MiB);
  Event event;
  const auto reader = open({.watched_fd = event.fd(), .device_read_bytes = 64 * KiB});
  Buffer buffer(2 * MiB);
  event.set();
  for (uint64_t round = 0; round < 50; round++) {
    reader->start(
        {.tag = round, .fd = file.fd(), .length_bytes = 2 * MiB, .buffer = buffer.data()});
    uint32_t wakes = 0;
    while (reader->reads_in_flight() > 0) {
      const Wakeup wakeup = reader->wait(-1);
      EXPECT_TRUE(wakeup.watched_fd_readable || !wakeup.completions.empty());
      for (const Completion& completion : wakeup.completions) EXPECT_EQ(completion.tag, round);
      wakes += wakeup.watched_fd_readable;
    }
    EXPECT_GT(wakes, 0u);
  }
}

// What dozing readers promise: the event ends it, and no completion is lost, whoever takes it.
TEST_P(ReaderTest, WhoDozesMissesNothing) {
  const PatternFile file(2 * MiB);
  Event event;
  const auto reader =
      open({.watched_fd = event.fd(), .reads_max = 8, .device_read_bytes = 64 * KiB});
  Buffer buffer(2 * MiB);
  EXPECT_TRUE(reader->doze(0).completions.empty());
  uint64_t finished = 0, dozed = 0;
  for (uint64_t round = 0; round < 50; round++) {
    for (uint64_t read = 0; read < 8; read++) {
      reader->start({.tag = read,
                     .fd = file.fd(),
                     .offset_bytes = read * 256 * KiB,
                     .length_bytes = 256 * KiB,
                     .buffer = buffer.data() + read * 256 * KiB});
    }
    std::thread setter([&] { event.set(); });
    for (bool is_set = false; !is_set; dozed++) {
      const Wakeup wakeup = reader->doze(-1);
      finished += wakeup.completions.size();
      is_set = wakeup.watched_fd_readable;
    }
    setter.join();
    event.clear();
    while (reader->reads_in_flight() > 0) finished += reader->wait(-1).completions.size();
    EXPECT_EQ(first_difference({buffer.data(), 2 * MiB}, 0), std::nullopt);
  }
  EXPECT_EQ(finished, 50u * 8);
  if (GetParam().open == open_uring_reader) {
    EXPECT_EQ(dozed, 50u) << "a read has ended it";
  }
}

TEST_P(ReaderTest, SignalsDoNotEndTheWait) {
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) {};
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGUSR1, &interrupt, &before), 0);

  Event event;
  const auto reader = open({.watched_fd = event.fd()});
  std::thread disturber([&event, waiting = pthread_self()] {
    for (int signals = 0; signals < 1000; signals++) {
      pthread_kill(waiting, SIGUSR1);
      std::this_thread::yield();
    }
    event.set();
  });
  EXPECT_TRUE(reader->wait(-1).watched_fd_readable);
  disturber.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(ReaderTest, DestructorWaitsForReadsInFlight) {
  constexpr uint32_t reads = 8;
  const PatternFile file(reads * MiB);
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < reads; i++) buffers.emplace_back(MiB);
  {
    const auto reader = open({.device_read_bytes = 128 * KiB});
    for (uint32_t i = 0; i < reads; i++) {
      reader->start({.tag = i,
                     .fd = file.fd(),
                     .offset_bytes = i * MiB,
                     .length_bytes = MiB,
                     .buffer = buffers[i].data()});
      if (i == reads / 2) reader->wait(0);
    }
  }
  for (uint32_t i = 0; i < reads; i++) {
    EXPECT_EQ(first_difference(buffers[i].first(MiB), i * MiB), std::nullopt);
  }
}

}  // namespace
}  // namespace weightpager::io
