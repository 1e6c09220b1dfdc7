// Large blocks against a model that keeps account of them in the simplest way. Addresses are
// numbers here: nothing may touch what lies there.
#include "pager/preload/large_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uintptr_t arenas_begin = uintptr_t{1} << 40;

std::byte* address(uintptr_t number) { return reinterpret_cast<std::byte*>(number); }
uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

/// Arenas that follow one another, as in one reservation.
struct Arenas {
  std::vector<uint64_t> bytes;
  std::vector<uintptr_t> begins;

  void add(LargeBlocks& blocks, uint64_t length_bytes) {
    const uintptr_t begin = begins.empty() ? arenas_begin : begins.back() + bytes.back();
    ASSERT_TRUE(blocks.add_arena(address(begin), address(begin + length_bytes)));
    begins.push_back(begin);
    bytes.push_back(length_bytes);
  }
  /// The arena that has the whole range, or the number of arenas.
  size_t of(uintptr_t begin, uint64_t length_bytes) const {
    for (size_t i = 0; i < begins.size(); ++i) {
      if (begins[i] <= begin && begin + length_bytes <= begins[i] + bytes[i]) return i;
    }
    return begins.size();
  }
};

TEST(LargeBlocks, BlocksLieSideBySideFromTheFirstAddressOn) {
  LargeBlocks blocks(chunk_bytes);
  Arenas arenas;
  EXPECT_FALSE(blocks.take(5 * MiB, 16, 0));
  arenas.add(blocks, 64 * MiB);
  const auto first = blocks.take(5 * MiB + 1, 16, 7);
  const auto second = blocks.take(4 * MiB, 16, 8);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(number(first->begin), arenas_begin);
  EXPECT_EQ(first->asked_bytes, 5 * MiB + 1);
  EXPECT_EQ(first->reserved_bytes, 5 * MiB + 4096);
  EXPECT_EQ(first->used_bytes, 0u);
  EXPECT_EQ(first->note, 7u);
  EXPECT_EQ(number(second->begin), arenas_begin + first->reserved_bytes);
  EXPECT_EQ(blocks.find(second->begin)->note, 8u);
  EXPECT_FALSE(blocks.find(second->begin + 4096));
  EXPECT_FALSE(blocks.give(second->begin + 4096));
  EXPECT_TRUE(blocks.is_in_one_block(first->begin + 1, 5 * MiB));
  EXPECT_FALSE(blocks.is_in_one_block(first->begin + 1, 6 * MiB));
}

TEST(LargeBlocks, ChunksAtABorderAreInUseUntilBothBlocksAreGone) {
  LargeBlocks blocks(chunk_bytes);
  Arenas arenas;
  arenas.add(blocks, 64 * MiB);
  const auto first = blocks.take(5 * MiB, 16, 0);
  const auto second = blocks.take(5 * MiB, 16, 0);
  for (size_t chunk = 0; chunk < 5; ++chunk) EXPECT_TRUE(blocks.is_chunk_in_use(0, chunk));
  EXPECT_FALSE(blocks.is_chunk_in_use(0, 5));
  EXPECT_TRUE(blocks.give(first->begin));
  EXPECT_FALSE(blocks.is_chunk_in_use(0, 1));
  EXPECT_TRUE(blocks.is_chunk_in_use(0, 2));
  EXPECT_TRUE(blocks.give(second->begin));
  EXPECT_FALSE(blocks.is_chunk_in_use(0, 2));
  EXPECT_FALSE(blocks.give(second->begin));
}

TEST(LargeBlocks, ShortLivedBlocksComeBackToTheSamePlace) {
  LargeBlocks blocks(chunk_bytes);
  Arenas arenas;
  arenas.add(blocks, GiB);
  const auto hole = blocks.take(32 * MiB, 16, 0);
  const auto weights = blocks.take(100 * MiB, 16, 0);
  const auto first = blocks.take(16 * MiB, 16, 0);
  ASSERT_TRUE(hole && weights && first);
  // By the first fit the next blocks would go to this hole.
  blocks.give(hole->begin);
  blocks.give(first->begin);
  for (int i = 0; i < 100; ++i) {
    const auto next = blocks.take(16 * MiB - static_cast<size_t>(i) * 4096, 16, 0);
    EXPECT_EQ(next->begin, first->begin);
    EXPECT_EQ(next->used_bytes, next->reserved_bytes);
    blocks.give(next->begin);
  }
}

TEST(LargeBlocks, GrowsInPlaceAsFarAsNothingIsBehind) {
  LargeBlocks blocks(chunk_bytes);
  Arenas arenas;
  arenas.add(blocks, 64 * MiB);
  arenas.add(blocks, 64 * MiB);
  const auto first = blocks.take(8 * MiB, 16, 0);
  EXPECT_TRUE(blocks.resize_in_place(first->begin, 20 * MiB));
  EXPECT_EQ(blocks.find(first->begin)->asked_bytes, 20 * MiB);
  EXPECT_TRUE(blocks.is_chunk_in_use(0, 9));
  EXPECT_TRUE(blocks.resize_in_place(first->begin, 4 * MiB));
  EXPECT_FALSE(blocks.is_chunk_in_use(0, 2));
  const auto second = blocks.take(8 * MiB, 16, 0);
  EXPECT_EQ(number(second->begin), arenas_begin + 4 * MiB);
  EXPECT_EQ(second->used_bytes, 8 * MiB);  // the first block once had it
  EXPECT_FALSE(blocks.resize_in_place(first->begin, 4 * MiB + 1));
  // No block reaches into the next arena.
  EXPECT_FALSE(blocks.resize_in_place(second->begin, 61 * MiB));
  EXPECT_TRUE(blocks.resize_in_place(second->begin, 60 * MiB));
  EXPECT_FALSE(blocks.resize_in_place(second->begin + 4096, 4096));
}

TEST(LargeBlocks, AnArenaOfTheNamedSizeHasRoomForAnyAlignment) {
  for (size_t alignment = 16; alignment <= 64 * MiB; alignment *= 2) {
    for (const size_t bytes : {size_t{1}, size_t{5 * MiB + 1}, size_t{64 * MiB}}) {
      LargeBlocks blocks(chunk_bytes);
      const uintptr_t begin = arenas_begin + chunk_bytes;  // no multiple of more
      const size_t length_bytes = blocks.arena_bytes_for(bytes, alignment);
      ASSERT_TRUE(blocks.add_arena(address(begin), address(begin + length_bytes)));
      const auto block = blocks.take(bytes, alignment, 0);
      ASSERT_TRUE(block) << bytes << " bytes at multiples of " << alignment;
      EXPECT_EQ(number(block->begin) % alignment, 0u);
    }
  }
}

/// Every operation, at random, with what must be true of its result.
class RandomUse {
 public:
  explicit RandomUse(uint32_t seed) : random_(seed) {}

  void step() {
    const uint32_t what = below(100);
    if (what < 45 || live_.empty()) return take();
    if (what < 85) return give();
    resize();
  }

  void check_counters() const {
    std::vector<std::vector<uint32_t>> expected(arenas_.begins.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i].resize(arenas_.bytes[i] / chunk_bytes);
    for (const auto& [begin, block] : live_) {
      const size_t arena = arenas_.of(begin, block.reserved_bytes);
      const uintptr_t offset = begin - arenas_.begins[arena];
      for (size_t chunk = offset / chunk_bytes;
           chunk <= (offset + block.reserved_bytes - 1) / chunk_bytes; ++chunk)
        ++expected[arena][chunk];
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t chunk = 0; chunk < expected[i].size(); ++chunk)
        ASSERT_EQ(blocks_.is_chunk_in_use(i, chunk), expected[i][chunk] > 0) << i << ' ' << chunk;
    }
  }

  void give_all() {
    while (!live_.empty()) give();
    check_counters();
    // All parts have joined again.
    for (size_t i = 0; i < arenas_.begins.size(); ++i) {
      const auto whole =
          blocks_.take(*std::max_element(arenas_.bytes.begin(), arenas_.bytes.end()), 16, 0);
      ASSERT_TRUE(whole);
    }
  }

 private:
  struct Kept {
    size_t asked_bytes;
    size_t reserved_bytes;
    uint64_t note;
  };

  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  void expect_free(uintptr_t begin, size_t length_bytes) const {
    ASSERT_LT(arenas_.of(begin, length_bytes), arenas_.begins.size()) << "in no arena";
    const auto behind = live_.lower_bound(begin);
    ASSERT_TRUE(behind == live_.end() || begin + length_bytes <= behind->first);
    if (behind == live_.begin()) return;
    const auto front = std::prev(behind);
    ASSERT_LE(front->first + front->second.reserved_bytes, begin);
  }

  void take() {
    const size_t bytes = below(4) == 0 ? 4 * MiB : 1 + below(64 << 20);
    const size_t alignment = below(8) == 0 ? size_t{1} << (4 + below(20)) : 16;
    const uint64_t note = random_();
    auto block = blocks_.take(bytes, alignment, note);
    if (!block) {
      // Rather than to grow for ever, half of all goes.
      if (arenas_.begins.size() == 4) {
        for (size_t count = live_.size() / 2; count > 0; --count) give();
        return;
      }
      ASSERT_NO_FATAL_FAILURE(arenas_.add(blocks_, GiB));
      block = blocks_.take(bytes, alignment, note);
      ASSERT_TRUE(block);
    }
    const uintptr_t begin = number(block->begin);
    ASSERT_EQ(begin % std::max<size_t>(alignment, 4096), 0u);
    ASSERT_EQ(block->asked_bytes, bytes);
    ASSERT_EQ(block->reserved_bytes, round_up(bytes, 4096));
    ASSERT_NO_FATAL_FAILURE(expect_free(begin, block->reserved_bytes));
    // What the block says to be unused no block ever had.
    uintptr_t& used_end = used_end_[arenas_.of(begin, 1)];
    ASSERT_GE(begin + block->used_bytes, std::min(used_end, begin + block->reserved_bytes));
    used_end = std::max(used_end, begin + block->reserved_bytes);
    live_[begin] = {bytes, block->reserved_bytes, note};
  }

  auto any() {
    const uintptr_t somewhere = arenas_begin + random_() % (arenas_.begins.size() * GiB);
    const auto found = live_.lower_bound(somewhere);
    return found == live_.end() ? live_.begin() : found;
  }

  void give() {
    const auto it = any();
    const auto block = blocks_.give(address(it->first));
    ASSERT_TRUE(block);
    ASSERT_EQ(block->asked_bytes, it->second.asked_bytes);
    ASSERT_EQ(block->note, it->second.note);
    live_.erase(it);
  }

  void resize() {
    const auto it = any();
    const size_t bytes = 1 + below(64 << 20);
    const size_t reserved_bytes = round_up(bytes, 4096);
    const auto behind = std::next(it);
    const size_t arena = arenas_.of(it->first, 1);
    uintptr_t free_end = arenas_.begins[arena] + arenas_.bytes[arena];
    if (behind != live_.end()) free_end = std::min(free_end, behind->first);
    const bool has_room = it->first + reserved_bytes <= free_end;
    ASSERT_EQ(blocks_.resize_in_place(address(it->first), bytes), has_room);
    if (has_room) {
      it->second.asked_bytes = bytes;
      it->second.reserved_bytes = reserved_bytes;
      used_end_[arena] = std::max(used_end_[arena], it->first + reserved_bytes);
    }
    const auto block = blocks_.find(address(it->first));
    ASSERT_TRUE(block);
    ASSERT_EQ(block->asked_bytes, it->second.asked_bytes);
    ASSERT_EQ(block->reserved_bytes, it->second.reserved_bytes);
  }

  std::mt19937_64 random_;
  LargeBlocks blocks_{chunk_bytes};
  Arenas arenas_;
  std::map<uintptr_t, Kept> live_;
  std::map<size_t, uintptr_t> used_end_;
};

TEST(LargeBlocks, AMillionOperationsAsInASimpleModel) {
  RandomUse use(1);
  for (int i = 0; i < 1'000'000; ++i) {
    use.step();
    if (i % 20'000 == 0) use.check_counters();
    if (::testing::Test::HasFatalFailure()) FAIL() << "in operation " << i;
  }
  use.give_all();
}

TEST(LargeBlocks, ThreadsGetDifferentBlocks) {
  LargeBlocks blocks(chunk_bytes);
  Arenas arenas;
  arenas.add(blocks, 8 * GiB);
  std::vector<std::atomic<int>> owner_of_page(8 * GiB / 4096);
  std::atomic<bool> is_over{false};
  std::thread pager([&] {
    while (!is_over) {
      for (size_t chunk = 0; chunk < 8 * GiB / chunk_bytes; ++chunk)
        static_cast<void>(blocks.is_chunk_in_use(0, chunk));
    }
  });
  std::vector<std::thread> threads;
  for (int self = 1; self <= 4; ++self) {
    threads.emplace_back([&, self] {
      std::mt19937 random(static_cast<uint32_t>(self));
      std::vector<LargeBlocks::Block> own;
      const auto page_of = [](const std::byte* begin) {
        return (number(begin) - arenas_begin) / 4096;
      };
      const auto give = [&](const LargeBlocks::Block& block) {
        const size_t first = page_of(block.begin);
        owner_of_page[first] = 0;
        owner_of_page[first + block.reserved_bytes / 4096 - 1] = 0;
        ASSERT_TRUE(blocks.give(block.begin));
      };
      for (int i = 0; i < 20'000; ++i) {
        if (own.size() < 8 && (own.empty() || random() % 2 == 0)) {
          const auto block = blocks.take(1 + random() % (64 << 20), 16, 0);
          ASSERT_TRUE(block);
          const size_t first = page_of(block->begin);
          const size_t last = first + block->reserved_bytes / 4096 - 1;
          ASSERT_EQ(owner_of_page[first].exchange(self), 0);
          const int owner_of_last = owner_of_page[last].exchange(self);
          ASSERT_EQ(owner_of_last, last == first ? self : 0);
          ASSERT_TRUE(blocks.is_chunk_in_use(0, first * 4096 / chunk_bytes));
          ASSERT_TRUE(blocks.is_chunk_in_use(0, last * 4096 / chunk_bytes));
          own.push_back(*block);
        } else {
          const size_t which = random() % own.size();
          give(own[which]);
          own.erase(own.begin() + static_cast<ptrdiff_t>(which));
        }
      }
      for (const auto& block : own) give(block);
    });
  }
  for (auto& thread : threads) thread.join();
  is_over = true;
  pager.join();
  const auto whole = blocks.take(8 * GiB, 16, 0);
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace weightpager::preload
