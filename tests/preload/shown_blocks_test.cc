// The list of blocks for others to see: against a map, and while threads change it.
#include "pager/preload/shown_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

constexpr uintptr_t shown_begin = uintptr_t{1} << 40;
constexpr Span everywhere{1, UINTPTR_MAX};

std::map<uintptr_t, size_t> listed(const ShownBlocks& blocks, const Span& range = everywhere) {
  std::vector<Span> spans(ShownBlocks::places);
  spans.resize(blocks.list(range, spans));
  std::map<uintptr_t, size_t> map;
  for (const Span& it : spans) map[it.begin] = it.length_bytes();
  EXPECT_EQ(map.size(), spans.size());
  return map;
}

TEST(ShownBlocks, HasWhatWasAddedAndNothingElse) {
  const auto blocks = std::make_unique<ShownBlocks>();
  std::map<uintptr_t, size_t> model;
  std::mt19937_64 random(5);
  for (int step = 0; step < 20'000; ++step) {
    const uintptr_t begin = shown_begin + random() % 4096 * 4 * MiB;
    const size_t bytes = (1 + random() % 1024) * os_page_bytes;
    if (!model.contains(begin)) {
      if (model.size() >= 1024) continue;
      blocks->add(begin, bytes);
      model[begin] = bytes;
    } else if (random() % 4 == 0) {
      blocks->resize(begin, bytes);
      model[begin] = bytes;
    } else {
      blocks->remove(begin);
      model.erase(begin);
    }
  }
  EXPECT_GT(model.size(), 500u);
  EXPECT_EQ(listed(*blocks), model);
  const uintptr_t middle = shown_begin + 2048 * 4 * MiB;
  const std::map<uintptr_t, size_t> half(model.lower_bound(middle), model.end());
  EXPECT_EQ(listed(*blocks, {middle, UINTPTR_MAX}), half);
}

TEST(ShownBlocks, WhatFindsNoPlaceIsLeftOut) {
  const auto blocks = std::make_unique<ShownBlocks>();
  for (uintptr_t i = 0; i < 3 * ShownBlocks::places; ++i)
    blocks->add(shown_begin + i * os_page_bytes, os_page_bytes);
  EXPECT_LE(listed(*blocks).size(), ShownBlocks::places);
  EXPECT_GT(listed(*blocks).size(), ShownBlocks::places / 2);
  for (uintptr_t i = 0; i < 3 * ShownBlocks::places; ++i)
    blocks->remove(shown_begin + i * os_page_bytes);
  EXPECT_TRUE(listed(*blocks).empty());
}

// Each thread's blocks have lengths of their own, so a length of another block would be seen.
TEST(ShownBlocks, ThreadsThatChangeItDoNotDisturbWhoLooksOn) {
  const auto blocks = std::make_unique<ShownBlocks>();
  constexpr uintptr_t threads = 4;
  constexpr uintptr_t each = 64;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> changing;
  for (uintptr_t thread = 0; thread < threads; ++thread) {
    changing.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      std::vector<bool> is_there(each);
      for (int step = 0; step < 100'000; ++step) {
        const uintptr_t index = random() % each;
        const uintptr_t begin = shown_begin + (index * threads + thread) * MiB;
        is_there[index] ? blocks->remove(begin) : blocks->add(begin, (thread + 1) * os_page_bytes);
        is_there[index] = !is_there[index];
      }
    });
  }
  std::thread looking([&] {
    while (!is_over.load()) {
      for (const auto& [begin, bytes] : listed(*blocks)) {
        const uintptr_t thread = (begin - shown_begin) / MiB % threads;
        ASSERT_EQ(bytes, (thread + 1) * os_page_bytes);
      }
    }
  });
  for (std::thread& thread : changing) thread.join();
  is_over.store(true);
  looking.join();
}

}  // namespace
}  // namespace weightpager::preload
