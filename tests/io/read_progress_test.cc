// The rules of short, interrupted and failed reads, without a kernel.
#include "pager/io/read_progress.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cerrno>
#include <cstdlib>

#include "tests/io/pattern_file.h"

namespace weightpager::io {
namespace {

// The same cases in every run, unless the caller wishes otherwise.
[[maybe_unused]] const int is_seeded = setenv("RC_PARAMS", "seed=20240501", 0);

constexpr uint64_t huge_file = UINT64_MAX;

/// Direct as far as anyone can tell: everything a multiple of 4 KiB.
Read aligned_read(uint32_t length_bytes) {
  alignas(os_page_bytes) static std::byte buffer[64 * KiB];
  return {
      .tag = 5, .fd = 3, .offset_bytes = 1 * MiB, .length_bytes = length_bytes, .buffer = buffer};
}

void expect_request(const ReadProgress& progress, uint32_t piece, uint32_t begin_bytes,
                    uint32_t length_bytes) {
  const Read read = aligned_read(0);
  const KernelRequest request = progress.request(piece);
  EXPECT_EQ(request.fd, read.fd);
  EXPECT_EQ(request.offset_bytes, read.offset_bytes + begin_bytes);
  EXPECT_EQ(request.length_bytes, length_bytes);
  EXPECT_EQ(request.buffer, read.buffer + begin_bytes);
}

void expect_completion(const ReadProgress& progress, int error_number, uint32_t length_bytes) {
  ASSERT_TRUE(progress.is_finished());
  EXPECT_EQ(progress.completion().tag, 5u);
  EXPECT_EQ(progress.completion().error_number, error_number);
  EXPECT_EQ(progress.completion().length_bytes, length_bytes);
}

class ReadProgressTest : public testing::Test {
 protected:
  ReadProgress progress_{4};
};

TEST_F(ReadProgressTest, SplitsWithTheRestLast) {
  progress_.begin(aligned_read(40 * KiB), 16 * KiB);
  ASSERT_EQ(progress_.piece_count(), 3u);
  expect_request(progress_, 0, 0, 16 * KiB);
  expect_request(progress_, 1, 16 * KiB, 16 * KiB);
  expect_request(progress_, 2, 32 * KiB, 8 * KiB);
}

TEST_F(ReadProgressTest, PiecesFinishInAnyOrder) {
  progress_.begin(aligned_read(48 * KiB), 16 * KiB);
  EXPECT_TRUE(progress_.take_answer(2, 16 * KiB, huge_file));
  EXPECT_TRUE(progress_.take_answer(0, 16 * KiB, huge_file));
  EXPECT_FALSE(progress_.is_finished());
  EXPECT_TRUE(progress_.take_answer(1, 16 * KiB, huge_file));
  expect_completion(progress_, 0, 48 * KiB);
}

TEST_F(ReadProgressTest, GoesOnFromTheLastAlignedByte) {
  progress_.begin(aligned_read(16 * KiB), 16 * KiB);
  EXPECT_FALSE(progress_.take_answer(0, 10'000, huge_file));
  expect_request(progress_, 0, 8 * KiB, 8 * KiB);
  EXPECT_TRUE(progress_.take_answer(0, 8 * KiB, huge_file));
  expect_completion(progress_, 0, 16 * KiB);
}

TEST_F(ReadProgressTest, AWriteHasNoEndOfFile) {
  const Read read = aligned_read(16 * KiB);
  const Write write{read.tag, read.fd, read.offset_bytes, read.length_bytes, read.buffer};
  progress_.begin(write, 16 * KiB);
  EXPECT_TRUE(progress_.request(0).is_write);
  EXPECT_FALSE(progress_.take_answer(0, 8 * KiB, read.offset_bytes + 8 * KiB));
  expect_request(progress_, 0, 8 * KiB, 8 * KiB);
  for (uint32_t i = 1; i < ReadProgress::patience_answers; ++i) {
    EXPECT_FALSE(progress_.take_answer(0, 0, huge_file));
  }
  EXPECT_TRUE(progress_.take_answer(0, 0, huge_file));
  expect_completion(progress_, EIO, 8 * KiB);
}

TEST_F(ReadProgressTest, GoesOnAtTheByteWhereTheReadIsNotAligned) {
  Read read = aligned_read(16 * KiB);
  read.offset_bytes++;
  progress_.begin(read, 16 * KiB);
  EXPECT_FALSE(progress_.take_answer(0, 10'000, huge_file));
  EXPECT_EQ(progress_.request(0).offset_bytes, read.offset_bytes + 10'000);
  EXPECT_EQ(progress_.request(0).length_bytes, 16 * KiB - 10'000);
}

TEST_F(ReadProgressTest, ShortAnswerThatReachesTheFilesSizeIsItsEnd) {
  progress_.begin(aligned_read(16 * KiB), 16 * KiB);
  EXPECT_TRUE(progress_.take_answer(0, 10'000, 1 * MiB + 10'000));
  expect_completion(progress_, 0, 10'000);
}

TEST_F(ReadProgressTest, NothingIsTheEndWhateverTheSizeSays) {
  progress_.begin(aligned_read(16 * KiB), 16 * KiB);
  EXPECT_FALSE(progress_.take_answer(0, 8 * KiB, huge_file));
  EXPECT_TRUE(progress_.take_answer(0, 0, huge_file));
  expect_completion(progress_, 0, 8 * KiB);
}

TEST_F(ReadProgressTest, PiecesAfterTheEndDoNotCount) {
  for (const int64_t after_the_end : {int64_t{16 * KiB}, int64_t{0}, int64_t{-EIO}}) {
    progress_.begin(aligned_read(48 * KiB), 16 * KiB);
    progress_.take_answer(2, after_the_end, huge_file);
    progress_.take_answer(1, 5000, 1 * MiB + 16 * KiB + 5000);
    progress_.take_answer(0, 16 * KiB, huge_file);
    expect_completion(progress_, 0, 16 * KiB + 5000);
  }
}

TEST_F(ReadProgressTest, FirstFailureInFileOrderIsTheReads) {
  progress_.begin(aligned_read(48 * KiB), 16 * KiB);
  EXPECT_TRUE(progress_.take_answer(2, -EBADF, huge_file));
  EXPECT_FALSE(progress_.take_answer(1, 4 * KiB, huge_file));
  EXPECT_TRUE(progress_.take_answer(1, -EIO, huge_file));
  EXPECT_TRUE(progress_.take_answer(0, 16 * KiB, huge_file));
  expect_completion(progress_, EIO, 20 * KiB);
}

TEST_F(ReadProgressTest, PatienceEndsWithTheErrorAndIsRenewedByProgress) {
  for (const auto& [answer, error_number] :
       {std::pair{int64_t{-EAGAIN}, EAGAIN}, {int64_t{-EINTR}, EINTR}, {int64_t{4095}, EIO}}) {
    progress_.begin(aligned_read(16 * KiB), 16 * KiB);
    for (uint32_t i = 1; i < ReadProgress::patience_answers; i++) {
      ASSERT_FALSE(progress_.take_answer(0, answer, huge_file));
    }
    ASSERT_FALSE(progress_.take_answer(0, 8 * KiB, huge_file));
    for (uint32_t i = 1; i < ReadProgress::patience_answers; i++) {
      ASSERT_FALSE(progress_.take_answer(0, answer, huge_file));
    }
    ASSERT_TRUE(progress_.take_answer(0, answer, huge_file));
    expect_completion(progress_, error_number, 8 * KiB);
  }
}

// The kernel has no thread for it.
TEST_F(ReadProgressTest, WhatNobodyElseGetsMemoryForIsAskedForOnceMoreWithout) {
  Read read = aligned_read(16 * KiB);
  read.gets_memory = true;
  progress_.begin(read, 16 * KiB);
  EXPECT_TRUE(progress_.request(0).gets_memory);
  ASSERT_FALSE(progress_.take_answer(0, -ECANCELED, huge_file));
  EXPECT_FALSE(progress_.request(0).gets_memory);
  EXPECT_TRUE(progress_.take_answer(0, 16 * KiB, huge_file));
  expect_completion(progress_, 0, 16 * KiB);
}

TEST_F(ReadProgressTest, EmptyReadAsksOnce) {
  progress_.begin(aligned_read(0), 16 * KiB);
  ASSERT_EQ(progress_.piece_count(), 1u);
  expect_request(progress_, 0, 0, 0);
  EXPECT_TRUE(progress_.take_answer(0, 0, huge_file));
  expect_completion(progress_, 0, 0);
}

/// A kernel that never lies, but answers as unhelpfully as it may: it does what it was asked to at
/// least every tenth time.
class UnhelpfulKernel {
 public:
  explicit UnhelpfulKernel(uint64_t file_bytes) : file_bytes_(file_bytes) {}

  int64_t answer(const KernelRequest& request) {
    const uint64_t left = file_bytes_ - std::min(file_bytes_, request.offset_bytes);
    const auto whole = static_cast<int64_t>(std::min<uint64_t>(left, request.length_bytes));
    const int64_t answer = ++calls_ % 10 == 0 ? whole : any_answer(whole);
    // What lies beyond the answer is undefined.
    std::fill_n(request.buffer, request.length_bytes, std::byte{0xEE});
    if (answer > 0) {
      fill_with_pattern({request.buffer, static_cast<size_t>(answer)}, request.offset_bytes);
    }
    return answer;
  }

 private:
  static int64_t any_answer(int64_t whole) {
    if (whole == 0) return *rc::gen::element<int64_t>(0, -EINTR, -EAGAIN);
    return *rc::gen::oneOf(rc::gen::inRange<int64_t>(1, whole + 1), rc::gen::just(whole),
                           rc::gen::element<int64_t>(-EINTR, -EAGAIN));
  }

  uint64_t file_bytes_;
  uint32_t calls_ = 0;
};

/// Lets pieces ask in any order until all are finished. Returns the number of answers.
template <typename Answer>
uint32_t run(ReadProgress& progress, uint64_t file_bytes, Answer answer) {
  std::vector<uint32_t> asking(progress.piece_count());
  for (uint32_t i = 0; i < asking.size(); i++) asking[i] = i;
  uint32_t answers = 0;
  for (; !asking.empty(); answers++) {
    const auto at = asking.begin() + *rc::gen::inRange<int>(0, static_cast<int>(asking.size()));
    if (progress.take_answer(*at, answer(progress.request(*at)), file_bytes)) asking.erase(at);
  }
  RC_ASSERT(progress.is_finished());
  return answers;
}

TEST(ReadProgressProperty, TruthfulAnswersInAnyOrderGiveExactlyTheFilesBytes) {
  const bool holds = rc::check("the count and every byte are right", [] {
    const auto unit = *rc::gen::element<uint32_t>(1, 512, 4096);
    const auto length_bytes = *rc::gen::inRange<uint32_t>(0, 32 * KiB / unit) * unit;
    const auto offset_bytes = *rc::gen::inRange<uint64_t>(0, 16) * unit;
    const auto piece_bytes = *rc::gen::element<uint32_t>(4 * KiB, 12 * KiB, 64 * KiB);
    const auto file_bytes = *rc::gen::inRange<uint64_t>(0, 100'000);
    Buffer buffer(length_bytes);
    ReadProgress progress(8);
    progress.begin(
        Read{.offset_bytes = offset_bytes, .length_bytes = length_bytes, .buffer = buffer.data()},
        piece_bytes);

    UnhelpfulKernel kernel(file_bytes);
    run(progress, file_bytes, [&](const KernelRequest& request) { return kernel.answer(request); });

    const uint64_t left = file_bytes - std::min(file_bytes, offset_bytes);
    const Completion completion = progress.completion();
    RC_ASSERT(completion.error_number == 0);
    RC_ASSERT(completion.length_bytes == std::min<uint64_t>(left, length_bytes));
    RC_ASSERT(!first_difference(buffer.first(completion.length_bytes), offset_bytes));
  });
  EXPECT_TRUE(holds);
}

TEST(ReadProgressProperty, AnyAnswersWhateverEndTheRead) {
  const bool holds = rc::check("no answers keep a read going for ever, or make it longer", [] {
    const auto length_bytes = *rc::gen::inRange<uint32_t>(0, 64 * KiB);
    ReadProgress progress(16);
    progress.begin(aligned_read(length_bytes), 4 * KiB);
    const uint32_t answers = run(progress, huge_file, [](const KernelRequest&) {
      return *rc::gen::oneOf(rc::gen::inRange<int64_t>(-40, 40), rc::gen::inRange<int64_t>(0, 9000),
                             rc::gen::just<int64_t>(-EAGAIN));
    });
    RC_ASSERT(answers <= (length_bytes + 16) * ReadProgress::patience_answers);
    RC_ASSERT(progress.completion().length_bytes <= length_bytes);
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace weightpager::io
