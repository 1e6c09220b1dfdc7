// That the reader which goes wrong on purpose goes wrong as planned, and otherwise not at all:
// tests of the pager lean on it.
#include "tests/io/faulty_reader.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/io/both_readers.h"

namespace weightpager::io {
namespace {

constexpr uint32_t piece_bytes = 64 * KiB;
constexpr uint32_t pieces = 16;

class FaultyReaderTest : public BothReaders {
 protected:
  std::unique_ptr<FaultyReader> open_faulty(FaultPlan plan, int watched_fd = -1) {
    return std::make_unique<FaultyReader>(
        open({.watched_fd = watched_fd, .reads_max = pieces, .read_bytes_max = piece_bytes}),
        pieces, std::move(plan));
  }

  /// Read `number` is of the file's piece `number`.
  void start(Reader& reader, uint32_t number) {
    reader.start({.tag = number,
                  .fd = file_.fd(),
                  .offset_bytes = uint64_t{number} * piece_bytes,
                  .length_bytes = piece_bytes,
                  .buffer = buffers_.at(number).data()});
  }

  void start_all(Reader& reader) {
    for (uint32_t number = 0; number < pieces; ++number) start(reader, number);
  }

  void expect_whole(const Completion& completion) {
    SCOPED_TRACE(testing::Message() << "read " << completion.tag);
    EXPECT_EQ(completion.error_number, 0);
    expect_bytes(completion, piece_bytes);
  }

  void expect_bytes(const Completion& completion, uint32_t length_bytes) {
    ASSERT_EQ(completion.length_bytes, length_bytes);
    EXPECT_EQ(first_difference(buffers_.at(completion.tag).first(length_bytes),
                               completion.tag * piece_bytes),
              std::nullopt);
  }

  PatternFile file_{uint64_t{pieces} * piece_bytes};
  std::vector<Buffer> buffers_ = make_buffers();

 private:
  static std::vector<Buffer> make_buffers() {
    std::vector<Buffer> buffers;
    for (uint32_t i = 0; i < pieces; ++i) buffers.emplace_back(piece_bytes);
    return buffers;
  }
};
INSTANTIATE_BOTH_READERS(FaultyReaderTest);

FaultPlan only(uint64_t number, Fault fault) {
  return [=](uint64_t asked, const Read&) { return asked == number ? fault : Fault{}; };
}

TEST_P(FaultyReaderTest, WithoutFaultsItIsTheRealReader) {
  const auto reader = open_faulty([](uint64_t, const Read&) { return Fault{}; });
  start_all(*reader);
  EXPECT_EQ(reader->reads_in_flight(), pieces);
  const auto completions = finish_all(*reader);
  EXPECT_EQ(completions.size(), pieces);
  for (const Completion& completion : completions) expect_whole(completion);
}

TEST_P(FaultyReaderTest, OneReadFails) {
  const auto reader =
      open_faulty(only(5, {.kind = Fault::Kind::error, .error_number = EIO, .length_bytes = 4096}));
  start_all(*reader);
  for (const Completion& completion : finish_all(*reader)) {
    if (completion.tag != 5) {
      expect_whole(completion);
      continue;
    }
    EXPECT_EQ(completion.error_number, EIO);
    EXPECT_EQ(completion.length_bytes, 4096u);
  }
}

TEST_P(FaultyReaderTest, OneWriteFails) {
  const PatternFile empty(0);
  const int fd = ::open(empty.path().c_str(), O_RDWR | O_CLOEXEC);
  FaultyReader reader(
      open({.reads_max = pieces, .read_bytes_max = piece_bytes}), pieces,
      [](uint64_t, const Read&) { return Fault{}; },
      [](uint64_t number, const Write&) -> Fault {
        if (number != 2) return {};
        return {.kind = Fault::Kind::error, .error_number = ENOSPC};
      });
  for (uint32_t number = 0; number < 4; ++number) {
    reader.start_write({.tag = number + 100,
                        .fd = fd,
                        .offset_bytes = uint64_t{number} * piece_bytes,
                        .length_bytes = piece_bytes,
                        .buffer = buffers_.at(number).data()});
  }
  for (const Completion& completion : finish_all(reader)) {
    EXPECT_EQ(completion.error_number, completion.tag == 102 ? ENOSPC : 0);
    EXPECT_EQ(completion.length_bytes, completion.tag == 102 ? 0 : piece_bytes);
  }
  close(fd);
}

TEST_P(FaultyReaderTest, ADeviceMayEndBeforeItsFile) {
  const auto reader = open_faulty(device_ends_at(10 * piece_bytes + 8192));
  start_all(*reader);
  for (const Completion& completion : finish_all(*reader)) {
    EXPECT_EQ(completion.error_number, 0);
    expect_bytes(completion, completion.tag < 10 ? piece_bytes : completion.tag == 10 ? 8192 : 0);
  }
}

TEST_P(FaultyReaderTest, ALateReadIsOvertakenByAllOthers) {
  constexpr std::chrono::milliseconds delay(200);
  const auto reader = open_faulty(
      only(0, {.kind = Fault::Kind::late, .delay_ns = std::chrono::nanoseconds(delay).count()}));
  const auto started = std::chrono::steady_clock::now();
  start_all(*reader);
  const auto completions = finish_all(*reader);
  EXPECT_GE(std::chrono::steady_clock::now() - started, delay);
  ASSERT_EQ(completions.size(), pieces);
  EXPECT_EQ(completions.back().tag, 0u);
  for (const Completion& completion : completions) expect_whole(completion);
}

TEST_P(FaultyReaderTest, AHungReadStopsNoOtherAndEndsWhenReleased) {
  const auto reader = open_faulty(only(3, {.kind = Fault::Kind::hang}));
  start_all(*reader);
  while (reader->reads_in_flight() > 1) {
    for (const Completion& completion : reader->wait(-1).completions) {
      EXPECT_NE(completion.tag, 3u);
      expect_whole(completion);
    }
  }
  EXPECT_TRUE(reader->wait(20'000'000).completions.empty());
  std::thread releaser([&] { reader->release_hung(); });
  const auto completions = finish_all(*reader);
  releaser.join();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].tag, 3u);
  expect_whole(completions[0]);
}

TEST_P(FaultyReaderTest, TheWatchedDescriptorWakesInSpiteOfAHungRead) {
  const int event = eventfd(0, EFD_CLOEXEC);
  const auto reader = open_faulty(only(0, {.kind = Fault::Kind::hang}), event);
  start(*reader, 0);
  ASSERT_EQ(eventfd_write(event, 1), 0);
  const Wakeup wakeup = reader->wait(-1);
  EXPECT_TRUE(wakeup.watched_fd_readable);
  EXPECT_TRUE(wakeup.completions.empty());
  EXPECT_EQ(reader->reads_in_flight(), 1u);
  close(event);
}

TEST_P(FaultyReaderTest, CanBeDestroyedWhileAReadHangs) {
  auto reader = open_faulty(only(1, {.kind = Fault::Kind::hang}));
  start_all(*reader);
  reader.reset();
  EXPECT_EQ(first_difference(buffers_[2].first(piece_bytes), 2 * piece_bytes), std::nullopt)
      << "the destructor waits for the reads that the kernel has";
  EXPECT_NE(first_difference(buffers_[1].first(piece_bytes), piece_bytes), std::nullopt);
}

}  // namespace
}  // namespace weightpager::io
