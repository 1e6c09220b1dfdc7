// Writes: what both readers promise of them (pager/io/reader.h), on real files, and with kernels
// and disks that misbehave.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>

#include "pager/io/read_table.h"
#include "tests/io/both_readers.h"

namespace weightpager::io {
namespace {

constexpr uint32_t slot_bytes = 64 * KiB;
constexpr uint32_t slot_pages = slot_bytes / os_page_bytes;
constexpr uint32_t slots = 256;

/// An empty file that may be written, directly where the file system allows it.
class WrittenFile {
 public:
  explicit WrittenFile(uint64_t size_bytes) {
    std::string path = testing::TempDir() + "written.XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    unlink(path.c_str());
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(size_bytes)), 0) << path;
    fcntl(fd_, F_SETFL, O_DIRECT);
  }
  ~WrittenFile() { close(fd_); }
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// What a page has after its so-manieth write: each version differs from all others in every word.
uint64_t word_of(uint32_t slot, uint32_t page, uint32_t version, uint32_t word) {
  if (version == 0) return 0;
  return (((uint64_t{slot} * slot_pages + page) << 32 | version) * 512 + word + 1) *
         0x9E3779B97F4A7C15;
}

void fill_page(std::byte* bytes, uint32_t slot, uint32_t page, uint32_t version) {
  for (uint32_t word = 0; word < os_page_bytes / 8; ++word) {
    const uint64_t value = word_of(slot, page, version, word);
    std::memcpy(bytes + word * 8, &value, 8);
  }
}

bool has_page(const std::byte* bytes, uint32_t slot, uint32_t page, uint32_t version) {
  for (uint32_t word = 0; word < os_page_bytes / 8; ++word) {
    const uint64_t value = word_of(slot, page, version, word);
    if (std::memcmp(bytes + word * 8, &value, 8) != 0) return false;
  }
  return true;
}

/// Reads and writes of random runs of pages, many in flight, one per slot of the file. Every read
/// must find the newest version of each page.
class MixedTraffic {
 public:
  MixedTraffic(Reader& reader, uint32_t in_flight_max, uint32_t seed)
      : reader_(reader), in_flight_max_(in_flight_max), random_(seed) {
    for (uint32_t slot = 0; slot < slots; ++slot) buffers_.emplace_back(slot_bytes);
  }

  void run(uint32_t count) {
    for (uint32_t started = 0; started < count || reader_.reads_in_flight() > 0;) {
      for (; started < count && reader_.reads_in_flight() < in_flight_max_; ++started) start_one();
      for (const Completion& it : reader_.wait(-1).completions) take(it);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
  uint32_t reads_checked() const { return reads_checked_; }

 private:
  struct Slot {
    bool is_busy = false;
    bool is_write = false;
    uint32_t begin = 0;
    uint32_t pages = 0;
    uint32_t versions[slot_pages] = {};
  };

  void start_one() {
    uint32_t number = random_() % slots;
    while (slots_[number].is_busy) number = (number + 1) % slots;
    Slot& slot = slots_[number];
    slot.is_busy = true;
    slot.is_write = random_() % 2 == 0;
    slot.begin = random_() % slot_pages;
    slot.pages = 1 + random_() % (slot_pages - slot.begin);
    const uint64_t offset_bytes =
        uint64_t{number} * slot_bytes + uint64_t{slot.begin} * os_page_bytes;
    const auto length_bytes = static_cast<uint32_t>(slot.pages * os_page_bytes);
    std::byte* buffer = buffers_[number].data();
    if (!slot.is_write) {
      std::fill_n(buffer, length_bytes, std::byte{0xEE});
      return reader_.start({number, file_.fd(), offset_bytes, length_bytes, buffer});
    }
    for (uint32_t page = 0; page < slot.pages; ++page) {
      const uint32_t version = ++slot.versions[slot.begin + page];
      fill_page(buffer + page * os_page_bytes, number, slot.begin + page, version);
    }
    reader_.start_write({number, file_.fd(), offset_bytes, length_bytes, buffer});
  }

  void take(const Completion& completion) {
    const auto number = static_cast<uint32_t>(completion.tag);
    Slot& slot = slots_.at(number);
    ASSERT_TRUE(slot.is_busy);
    slot.is_busy = false;
    ASSERT_EQ(completion.error_number, 0);
    ASSERT_EQ(completion.length_bytes, slot.pages * os_page_bytes);
    if (slot.is_write) return;
    reads_checked_++;
    for (uint32_t page = slot.begin; page < slot.begin + slot.pages; ++page) {
      const std::byte* bytes = buffers_[number].data() + (page - slot.begin) * os_page_bytes;
      ASSERT_TRUE(has_page(bytes, number, page, slot.versions[page]))
          << "slot " << number << ", page " << page << ", version " << slot.versions[page];
    }
  }

  Reader& reader_;
  const uint32_t in_flight_max_;
  std::mt19937 random_;
  WrittenFile file_{uint64_t{slots} * slot_bytes};
  std::vector<Slot> slots_{slots};
  std::vector<Buffer> buffers_;
  uint32_t reads_checked_ = 0;
};

/// Changes answers at random. Where it hides bytes that did go, it spoils them: in the buffer of a
/// read, in the file of a write.
class RandomMisbehaviour final : public AnswerFilter {
 public:
  explicit RandomMisbehaviour(uint32_t seed) : random_(seed) {
    std::fill_n(spoilt_.data(), slot_bytes, std::byte{0xBD});
  }

  int64_t filter(const KernelRequest& request, int64_t answer) override {
    const int64_t changed = change(answer);
    const int64_t hidden_from = std::max<int64_t>(changed, 0);
    if (answer <= hidden_from) return changed;
    if (!request.is_write) {
      std::fill(request.buffer + hidden_from, request.buffer + answer, std::byte{0xBD});
      return changed;
    }
    const uint64_t from = round_down(static_cast<uint64_t>(hidden_from), os_page_bytes);
    const ssize_t length = static_cast<ssize_t>(static_cast<uint64_t>(answer) - from);
    EXPECT_EQ(pwrite(request.fd, spoilt_.data(), static_cast<size_t>(length),
                     static_cast<off_t>(request.offset_bytes + from)),
              length);
    return changed;
  }

 private:
  int64_t change(int64_t answer) {
    if (answer <= 1) return answer;
    switch (random_() % 5) {
      case 0:
        return -EINTR;
      case 1:
        return -EAGAIN;
      case 2:
        return std::uniform_int_distribution<int64_t>(1, answer)(random_);
      default:
        return answer;
    }
  }

  std::mt19937 random_;
  Buffer spoilt_{slot_bytes};
};

/// Gives the answers that the test wants, whatever the kernel has said.
class SetAnswers final : public AnswerFilter {
 public:
  using Answer = std::function<int64_t(uint32_t call, const KernelRequest& request)>;
  explicit SetAnswers(Answer answer) : answer_(std::move(answer)) {}
  int64_t filter(const KernelRequest& request, int64_t) override {
    EXPECT_TRUE(request.is_write);
    return answer_(calls_++, request);
  }
  uint32_t calls() const { return calls_; }

 private:
  Answer answer_;
  uint32_t calls_ = 0;
};

class WritingTest : public BothReaders {
 protected:
  static Completion write_alone(Reader& reader, const Write& write) {
    reader.start_write(write);
    const auto completions = finish_all(reader);
    EXPECT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions.at(0).tag, write.tag);
    return completions.at(0);
  }

  /// Writes 256 KiB in pieces of 64 KiB.
  static Completion write_under(AnswerFilter& filter) {
    const auto reader = open({.device_read_bytes = 64 * KiB, .answer_filter = &filter});
    const WrittenFile file(256 * KiB);
    Buffer buffer(256 * KiB);
    return write_alone(
        *reader, {.tag = 9, .fd = file.fd(), .length_bytes = 256 * KiB, .buffer = buffer.data()});
  }
};
INSTANTIATE_BOTH_READERS(WritingTest);

TEST_P(WritingTest, EveryReadFindsWhatWasWrittenLast) {
  const auto reader = open({.reads_max = 48, .device_read_bytes = 16 * KiB});
  MixedTraffic traffic(*reader, 48, 1);
  traffic.run(20'000);
  EXPECT_GT(traffic.reads_checked(), 9'000u);
}

TEST_P(WritingTest, SoItDoesIfTheKernelIsShortInterruptedAndBusy) {
  RandomMisbehaviour misbehaviour(7);
  const auto reader =
      open({.reads_max = 48, .device_read_bytes = 16 * KiB, .answer_filter = &misbehaviour});
  MixedTraffic traffic(*reader, 48, 2);
  traffic.run(10'000);
  EXPECT_GT(traffic.reads_checked(), 4'000u);
}

TEST_P(WritingTest, LongWritesAreWholeAndTheirBuffersUnchanged) {
  const WrittenFile file(0);
  const auto reader = open({.device_read_bytes = 256 * KiB});
  Buffer written(2 * MiB), read(2 * MiB);
  fill_with_pattern({written.data(), 2 * MiB}, 2 * MiB);
  const Completion completion = write_alone(*reader, {.tag = 4,
                                                      .fd = file.fd(),
                                                      .offset_bytes = 2 * MiB,
                                                      .length_bytes = 2 * MiB,
                                                      .buffer = written.data()});
  EXPECT_EQ(completion.error_number, 0);
  EXPECT_EQ(completion.length_bytes, 2 * MiB);
  EXPECT_EQ(first_difference(written.first(2 * MiB), 2 * MiB), std::nullopt);
  EXPECT_EQ(read_alone(*reader, {.fd = file.fd(),
                                 .offset_bytes = 2 * MiB,
                                 .length_bytes = 2 * MiB,
                                 .buffer = read.data()})
                .length_bytes,
            2 * MiB);
  EXPECT_EQ(first_difference(read.first(2 * MiB), 2 * MiB), std::nullopt);
}

TEST_P(WritingTest, AFullDeviceIsNamedAsSuch) {
  const int fd = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto reader = open({.device_read_bytes = 64 * KiB});
  Buffer buffer(256 * KiB);
  const Completion completion =
      write_alone(*reader, {.fd = fd, .length_bytes = 256 * KiB, .buffer = buffer.data()});
  EXPECT_EQ(completion.error_number, ENOSPC);
  EXPECT_EQ(completion.length_bytes, 0u);
  close(fd);
}

TEST_P(WritingTest, AFileThatIsOnlyReadIsAnError) {
  const PatternFile file(64 * KiB);
  const auto reader = open({});
  Buffer buffer(64 * KiB);
  const Completion completion =
      write_alone(*reader, {.fd = file.fd(), .length_bytes = 64 * KiB, .buffer = buffer.data()});
  EXPECT_EQ(completion.error_number, EBADF);
}

// Half of the second piece has gone; then there is no room for the rest.
TEST_P(WritingTest, AShortWriteThatCannotGoOnTellsWhy) {
  for (const int error_number : {ENOSPC, EIO, EDQUOT}) {
    bool is_half = false;
    SetAnswers full([&](uint32_t, const KernelRequest& request) -> int64_t {
      if (request.offset_bytes < 64 * KiB) return request.length_bytes;
      if (request.offset_bytes != 64 * KiB || is_half) return -error_number;
      is_half = true;
      return 32 * KiB;
    });
    const Completion completion = write_under(full);
    EXPECT_EQ(completion.error_number, error_number);
    EXPECT_EQ(completion.length_bytes, 96 * KiB);
  }
}

TEST_P(WritingTest, AWriteThatNeverGoesOnIsAnError) {
  SetAnswers none([](uint32_t, const KernelRequest&) -> int64_t { return 0; });
  EXPECT_EQ(write_under(none).error_number, EIO);
  EXPECT_EQ(none.calls(), 4 * ReadProgress::patience_answers);

  SetAnswers busy([](uint32_t, const KernelRequest&) -> int64_t { return -EAGAIN; });
  EXPECT_EQ(write_under(busy).error_number, EAGAIN);
}

TEST_P(WritingTest, DestructorWaitsForWritesInFlight) {
  constexpr uint32_t writes = 8;
  const WrittenFile file(0);
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < writes; ++i) {
    buffers.emplace_back(MiB);
    fill_with_pattern({buffers.back().data(), MiB}, i * MiB);
  }
  {
    const auto reader = open({.device_read_bytes = 128 * KiB});
    for (uint32_t i = 0; i < writes; ++i) {
      reader->start_write({.tag = i,
                           .fd = file.fd(),
                           .offset_bytes = i * MiB,
                           .length_bytes = MiB,
                           .buffer = buffers[i].data()});
    }
  }
  for (uint32_t i = 0; i < writes; ++i) {
    std::fill_n(buffers[i].data(), MiB, std::byte{0});
    ASSERT_EQ(pread(file.fd(), buffers[i].data(), MiB, static_cast<off_t>(i * MiB)),
              static_cast<ssize_t>(MiB));
    EXPECT_EQ(first_difference(buffers[i].first(MiB), i * MiB), std::nullopt);
  }
}

}  // namespace
}  // namespace weightpager::io
