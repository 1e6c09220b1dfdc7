#include "pager/preload/short_lived_blocks.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

constexpr uint64_t ms = 1'000'000;

/// Blocks of one length, one after the other.
class Engine {
 public:
  explicit Engine(size_t length_bytes) : length_bytes_(length_bytes) {}

  /// Takes a block and gives it back after some time. Returns whether the block was plain.
  bool use_for(uint64_t life_ns) {
    const bool is_plain = take();
    end(is_plain, life_ns);
    return is_plain;
  }
  /// Takes a block and keeps it. Returns whether it was plain.
  bool keep() { return take(); }
  /// Returns how many blocks were used for a moment until one was plain.
  int uses_until_plain() {
    for (int uses = 0; uses < 10'000; ++uses) {
      if (use_for(ms)) return uses;
    }
    return -1;
  }
  void wait(uint64_t time_ns) { now_ns_ += time_ns; }
  ShortLivedBlocks& lives() { return lives_; }

 private:
  bool take() {
    const bool is_plain = lives_.shall_be_plain(length_bytes_, now_ns_);
    address_ += 1 << 30;
    if (is_plain) lives_.note_plain(address_, length_bytes_, now_ns_);
    if (!is_plain) lives_.note_spilled(length_bytes_);
    return is_plain;
  }
  void end(bool is_plain, uint64_t life_ns) {
    now_ns_ += life_ns;
    if (is_plain) lives_.note_plain_end(address_, now_ns_);
    if (!is_plain) lives_.note_spilled_end(length_bytes_, life_ns);
  }

  const size_t length_bytes_;
  ShortLivedBlocks lives_;
  uint64_t now_ns_ = 1'000 * ms;
  uintptr_t address_ = 0;
};

TEST(ShortLivedBlocks, BlocksOfAMomentBecomePlain) {
  Engine engine(16 * MiB);
  EXPECT_EQ(engine.uses_until_plain(), 4);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(engine.use_for(ms));
}

TEST(ShortLivedBlocks, LongLivesAreSpilled) {
  Engine engine(16 * MiB);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(engine.use_for(101 * ms));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(engine.keep());
}

TEST(ShortLivedBlocks, OtherLengthsAreNotMeant) {
  Engine engine(16 * MiB);
  engine.uses_until_plain();
  EXPECT_TRUE(engine.lives().shall_be_plain(17 * MiB, 0));
  EXPECT_FALSE(engine.lives().shall_be_plain(32 * MiB, 0));
  EXPECT_FALSE(engine.lives().shall_be_plain(8 * MiB, 0));
}

TEST(ShortLivedBlocks, VeryLongBlocksAreAlwaysSpilled) {
  Engine engine(64 * MiB + 1);
  EXPECT_EQ(engine.uses_until_plain(), -1);
  Engine longest(64 * MiB);
  EXPECT_EQ(longest.uses_until_plain(), 4);
}

TEST(ShortLivedBlocks, ALongLifeEndsItAndTheNextTimeTakesLonger) {
  Engine engine(16 * MiB);
  int before = engine.uses_until_plain();
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(engine.use_for(200 * ms));
    EXPECT_FALSE(engine.use_for(ms));
    const int uses = engine.uses_until_plain() + 1;
    EXPECT_EQ(uses, std::min(before * 2, 1024));
    before = uses;
  }
}

// Weights of the same length as the conversions beside them.
TEST(ShortLivedBlocks, FewWeightsArePlainByMistake) {
  Engine engine(16 * MiB);
  int mistakes = 0;
  for (int i = 0; i < 10'000; ++i) {
    engine.use_for(ms);
    if (engine.keep()) ++mistakes;
  }
  EXPECT_EQ(mistakes, 0);
  // Then only conversions, until they are plain, and then weights again.
  EXPECT_GE(engine.uses_until_plain(), 0);
  for (int i = 0; i < 100; ++i) {
    if (engine.keep()) ++mistakes;
    engine.wait(ms);
  }
  EXPECT_EQ(mistakes, 8);
  engine.wait(100 * ms);
  EXPECT_FALSE(engine.keep());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(engine.use_for(ms));
}

TEST(ShortLivedBlocks, ThreadsHaveSomeAtATime) {
  ShortLivedBlocks lives;
  std::mt19937 random(1);
  std::deque<std::pair<uintptr_t, bool>> taken;
  uintptr_t next = 4096;
  int plain = 0;
  for (uint64_t now = ms; now < 10'000 * ms; now += ms) {
    const bool is_plain = lives.shall_be_plain(16 * MiB, now);
    if (is_plain) lives.note_plain(next, 16 * MiB, now);
    if (!is_plain) lives.note_spilled(16 * MiB);
    taken.emplace_back(next, is_plain);
    next += 4096;
    if (taken.size() <= 4) continue;
    const auto [begin, was_plain] = taken.front();
    taken.pop_front();
    if (was_plain) lives.note_plain_end(begin, now);
    if (!was_plain) lives.note_spilled_end(16 * MiB, 4 * ms);
    plain += was_plain ? 1 : 0;
  }
  EXPECT_GT(plain, 9'900);
}

TEST(ShortLivedBlocks, AllTogetherHaveALimit) {
  ShortLivedBlocks lives;
  uintptr_t next = 4096;
  size_t plain_bytes = 0;
  for (const size_t length_bytes : {8 * MiB, 16 * MiB, 32 * MiB, 64 * MiB}) {
    for (int i = 0; i < 4; ++i) {
      lives.note_spilled(length_bytes);
      lives.note_spilled_end(length_bytes, ms);
    }
    EXPECT_FALSE(lives.is_idle());
    while (lives.shall_be_plain(length_bytes, ms)) {
      lives.note_plain(next, length_bytes, ms);
      plain_bytes += length_bytes;
      next += 4096;
    }
  }
  EXPECT_LE(plain_bytes, ShortLivedBlocks::plain_bytes_max);
  EXPECT_GE(plain_bytes, ShortLivedBlocks::plain_bytes_max / 2);
  EXPECT_FALSE(lives.is_idle());
}

}  // namespace
}  // namespace weightpager::preload
