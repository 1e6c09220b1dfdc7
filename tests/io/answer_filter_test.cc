// Kernels and disks that misbehave on demand: what the caller gets is right all the same, or an
// error.
#include <cerrno>
#include <functional>
#include <random>

#include "pager/io/read_table.h"
#include "tests/io/both_readers.h"

namespace weightpager::io {
namespace {

/// Changes answers as a function of how many there were. Where it hides bytes that did arrive, it
/// spoils them, so that nobody can get by without reading them again.
class Misbehaviour final : public AnswerFilter {
 public:
  using Change = std::function<int64_t(uint32_t call, int64_t answer)>;
  explicit Misbehaviour(Change change) : change_(std::move(change)) {}

  int64_t filter(const KernelRequest& request, int64_t answer) override {
    const int64_t changed = change_(calls_++, answer);
    const int64_t hidden_from = std::max<int64_t>(changed, 0);
    if (hidden_from < answer) {
      std::fill(request.buffer + hidden_from, request.buffer + answer, std::byte{0xBD});
    }
    return changed;
  }

  uint32_t calls() const { return calls_; }

 private:
  Change change_;
  uint32_t calls_ = 0;
};

class AnswerFilterTest : public BothReaders {
 protected:
  /// Reads a 300,001-byte file in one go, in 64 KiB pieces.
  void expect_exact_under(Misbehaviour& misbehaviour) {
    const auto reader = open({.device_read_bytes = 64 * KiB, .answer_filter = &misbehaviour});
    expect_exact(*reader, file_, 0, 512 * KiB);
    expect_exact(*reader, file_, 128 * KiB, 256 * KiB);
  }

  Completion read_under(Misbehaviour& misbehaviour) {
    const auto reader = open({.device_read_bytes = 64 * KiB, .answer_filter = &misbehaviour});
    Buffer buffer(256 * KiB);
    return read_alone(*reader,
                      {.fd = file_.fd(), .length_bytes = 256 * KiB, .buffer = buffer.data()});
  }

  PatternFile file_{300'001};
};
INSTANTIATE_BOTH_READERS(AnswerFilterTest);

TEST_P(AnswerFilterTest, EveryAnswerShort) {
  Misbehaviour halves(
      [](uint32_t, int64_t answer) { return answer > 4096 ? round_up(answer / 2, 4096) : answer; });
  expect_exact_under(halves);
}

TEST_P(AnswerFilterTest, ShortAnswersOfAnyLength) {
  for (uint32_t seed = 1; seed <= 20; seed++) {
    std::mt19937 random(seed);
    Misbehaviour shorter([&random](uint32_t call, int64_t answer) -> int64_t {
      if (answer <= 1 || call % 3 == 0) return answer;
      return std::uniform_int_distribution<int64_t>(1, answer)(random);
    });
    expect_exact_under(shorter);
  }
}

TEST_P(AnswerFilterTest, InterruptedAndBusyNowAndThen) {
  Misbehaviour unwilling([](uint32_t call, int64_t answer) -> int64_t {
    if (call % 3 == 0) return -EINTR;
    return call % 3 == 1 ? -EAGAIN : answer;
  });
  expect_exact_under(unwilling);
}

TEST_P(AnswerFilterTest, BusyForeverIsReported) {
  Misbehaviour busy([](uint32_t, int64_t) -> int64_t { return -EAGAIN; });
  const Completion completion = read_under(busy);
  EXPECT_EQ(completion.error_number, EAGAIN);
  EXPECT_EQ(completion.length_bytes, 0u);
  EXPECT_EQ(busy.calls(), 4 * ReadProgress::patience_answers);
}

TEST_P(AnswerFilterTest, FailureOfAnyCallIsTheReadsFailureOnce) {
  for (uint32_t failing = 0; failing < 4; failing++) {
    Misbehaviour broken([failing](uint32_t call, int64_t answer) -> int64_t {
      return call == failing ? -EIO : answer;
    });
    const Completion completion = read_under(broken);
    EXPECT_EQ(completion.error_number, EIO);
    EXPECT_LT(completion.length_bytes, 256 * KiB);
    EXPECT_EQ(completion.length_bytes % (64 * KiB), 0u);
  }
}

TEST_P(AnswerFilterTest, FileThatEndsEarlierThanItsSizeSaysIsShort) {
  Misbehaviour ended([](uint32_t, int64_t) -> int64_t { return 0; });
  const Completion completion = read_under(ended);
  EXPECT_EQ(completion.error_number, 0);
  EXPECT_EQ(completion.length_bytes, 0u);
}

}  // namespace
}  // namespace weightpager::io
