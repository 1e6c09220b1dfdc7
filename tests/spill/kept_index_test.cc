// The index of kept chunks, case by case, and against a model that uses a map.
#include "pager/spill/kept_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "pager/base/units.h"
#include "pager/spill/kept_records.h"

namespace weightpager::spill {
namespace {

constexpr uint64_t place_bytes = 2 * MiB;

/// Contents that lie near each other in the table, so that they meet.
ContentHash hash_number(uint64_t number) { return {number % 7, number}; }
KeptPlace own_place(uint64_t number) { return {KeptIndex::own_file, number * place_bytes}; }

TEST(KeptIndexTest, FindsWhatEarlierRunsHaveKept) {
  KeptIndex index(place_bytes);
  EXPECT_FALSE(index.find(hash_number(1)));
  for (uint64_t i = 0; i < 1000; ++i) index.add_earlier(hash_number(i), {3, i * place_bytes});
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(index.find(hash_number(i)), (KeptPlace{3, i * place_bytes})) << i;
  }
  EXPECT_FALSE(index.find(hash_number(1000)));
}

TEST(KeptIndexTest, TheFirstPlaceOfAContentCounts) {
  KeptIndex index(place_bytes);
  index.add_earlier(hash_number(1), {2, 0});
  index.add_earlier(hash_number(1), {5, place_bytes});
  EXPECT_EQ(index.find(hash_number(1)), (KeptPlace{2, 0}));
  EXPECT_FALSE(index.add_own(hash_number(1), 0)) << "nobody finds it";
  EXPECT_TRUE(index.end_use(own_place(0), true)) << "nor is it of any use";
  EXPECT_EQ(index.find(hash_number(1)), (KeptPlace{2, 0}));
}

TEST(KeptIndexTest, PlacesOfEarlierRunsAreNeverFree) {
  KeptIndex index(place_bytes);
  index.add_earlier(hash_number(1), {1, 0});
  index.begin_use({1, 0});
  EXPECT_FALSE(index.end_use({1, 0}, false));
  EXPECT_TRUE(index.find(hash_number(1)));
}

TEST(KeptIndexTest, WhatIsWrittenOverIsFree) {
  KeptIndex index(place_bytes);
  EXPECT_TRUE(index.add_own(hash_number(1), 0));
  EXPECT_EQ(index.used(), 1u);
  EXPECT_TRUE(index.end_use(own_place(0), false));
  EXPECT_FALSE(index.find(hash_number(1)));
  EXPECT_EQ(index.used() + index.unused(), 0u);
  EXPECT_TRUE(index.add_own(hash_number(2), 0)) << "and may be written anew";
}

TEST(KeptIndexTest, APlaceIsFreeWhenItsLastUserHasGone) {
  KeptIndex index(place_bytes);
  index.add_own(hash_number(1), 0);
  index.begin_use(own_place(0));
  EXPECT_FALSE(index.end_use(own_place(0), false));
  EXPECT_TRUE(index.find(hash_number(1)));
  EXPECT_TRUE(index.end_use(own_place(0), false));
}

TEST(KeptIndexTest, WhatIsWorthKeepingStaysUntilItsTurn) {
  KeptIndex index(place_bytes);
  for (uint64_t i = 0; i < 3; ++i) index.add_own(hash_number(i), i * place_bytes);
  for (const uint64_t i : {1, 0, 2}) EXPECT_FALSE(index.end_use(own_place(i), true));
  EXPECT_EQ(index.unused(), 3u);
  EXPECT_EQ(index.used_max(), 3u);
  index.begin_use(own_place(0));
  EXPECT_FALSE(index.end_use(own_place(0), false)) << "somebody has said that it is worth it";
  EXPECT_EQ(index.take_unused(), place_bytes);
  EXPECT_EQ(index.take_unused(), 2 * place_bytes);
  EXPECT_EQ(index.take_unused(), 0u) << "used last";
  EXPECT_FALSE(index.take_unused());
}

TEST(KeptIndexTest, NobodyFindsWhatIsDistrusted) {
  KeptIndex index(place_bytes);
  index.add_earlier(hash_number(1), {1, 0});
  index.distrust(hash_number(1), {1, 0});
  EXPECT_FALSE(index.find(hash_number(1)));
  EXPECT_TRUE(index.add_own(hash_number(1), 0)) << "the content is written anew";
  index.distrust(hash_number(1), {1, 0});
  EXPECT_TRUE(index.find(hash_number(1))) << "another place is meant";
  index.distrust(hash_number(1), own_place(0));
  EXPECT_FALSE(index.find(hash_number(1)));
  EXPECT_TRUE(index.end_use(own_place(0), true));
}

/// The same by simple means.
struct KeptModel {
  struct Own {
    uint64_t content = 0;
    int users = 0;
    bool is_worth = false;
  };
  std::map<uint64_t, KeptPlace> found;  // by content
  std::map<uint64_t, Own> own;          // by place
  std::deque<uint64_t> unused;          // places

  bool is_found_at(uint64_t place) const {
    const auto it = found.find(own.at(place).content);
    return it != found.end() && it->second == own_place(place);
  }
  bool end_use(uint64_t place, bool is_worth) {
    Own& it = own.at(place);
    it.is_worth = it.is_worth || is_worth;
    if (--it.users > 0) return false;
    if (it.is_worth && is_found_at(place)) {
      unused.push_back(place);
      return false;
    }
    forget(place);
    return true;
  }
  void forget(uint64_t place) {
    if (is_found_at(place)) found.erase(own.at(place).content);
    own.erase(place);
  }
};

TEST(KeptIndexTest, DoesAsTheModelDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    KeptIndex index(place_bytes);
    KeptModel model;
    std::set<uint64_t> free;
    for (uint64_t i = 0; i < 60; ++i) free.insert(i);
    for (uint64_t i = 0; i < 30; ++i) {
      index.add_earlier(hash_number(i), {1, i * place_bytes});
      model.found[i] = {1, i * place_bytes};
    }
    for (int step = 0; step < 3000; ++step) {
      const uint64_t content = random() % 90;
      const auto found = index.find(hash_number(content));
      ASSERT_EQ(found.has_value(), model.found.contains(content));
      ASSERT_TRUE(!found || *found == model.found[content]);
      const uint64_t kind = random() % 8;
      std::vector<uint64_t> used;
      for (const auto& [place, it] : model.own) {
        if (it.users > 0) used.push_back(place);
      }
      if (kind < 3 && !free.empty()) {
        const uint64_t place = *free.begin();
        free.erase(place);
        const bool is_first = model.found.emplace(content, own_place(place)).second;
        model.own[place] = {content, 1, false};
        ASSERT_EQ(index.add_own(hash_number(content), place * place_bytes), is_first);
      } else if (kind == 3 && found && found->file == KeptIndex::own_file) {
        const uint64_t place = found->offset_bytes / place_bytes;
        std::erase(model.unused, place);
        model.own[place].users++;
        index.begin_use(*found);
      } else if (kind < 6 && !used.empty()) {
        const uint64_t place = used[random() % used.size()];
        const bool is_worth = random() % 2 == 0;
        const bool is_free = model.end_use(place, is_worth);
        ASSERT_EQ(index.end_use(own_place(place), is_worth), is_free);
        if (is_free) free.insert(place);
      } else if (kind == 6 && !model.unused.empty()) {
        const uint64_t place = model.unused.front();
        model.unused.pop_front();
        model.forget(place);
        free.insert(place);
        ASSERT_EQ(index.take_unused(), place * place_bytes);
      } else if (kind == 7 && random() % 20 == 0 && found) {
        model.found.erase(content);
        index.distrust(hash_number(content), *found);
      }
      ASSERT_EQ(index.unused(), model.unused.size());
    }
  }
}

// ---- Records ----

std::vector<std::byte> index_of(uint64_t places, const std::vector<KeptRecord>& records) {
  std::vector<std::byte> bytes(kept_record_offset(places));
  const KeptRecordBytes head = kept_head(place_bytes);
  std::copy(head.begin(), head.end(), bytes.begin());
  for (const KeptRecord& it : records) {
    const KeptRecordBytes record = kept_record(it);
    std::copy(record.begin(), record.end(),
              bytes.begin() + static_cast<ptrdiff_t>(kept_record_offset(it.place)));
  }
  return bytes;
}

TEST(KeptRecordsTest, SayWhatWasWritten) {
  const std::vector<KeptRecord> records = {{0, {1, 2}}, {3, {0, 0}}, {7, {UINT64_MAX, 9}}};
  const auto kept = parse_kept_records(index_of(9, records));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->place_bytes, place_bytes);
  EXPECT_EQ(kept->records, records);
}

TEST(KeptRecordsTest, ARecordThatWasCutSaysNothing) {
  auto bytes = index_of(3, {{0, {1, 2}}, {1, {3, 4}}, {2, {5, 6}}});
  bytes[kept_record_offset(1) + 20] ^= std::byte{1};
  // The last one is not whole.
  const auto kept = parse_kept_records(std::span(bytes).first(bytes.size() - 1));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->records, (std::vector<KeptRecord>{{0, {1, 2}}}));
}

TEST(KeptRecordsTest, ARecordCountsAtItsOwnPlaceOnly) {
  auto bytes = index_of(2, {{0, {1, 2}}});
  std::copy_n(bytes.begin() + kept_record_offset(0), kept_record_bytes,
              bytes.begin() + kept_record_offset(1));
  EXPECT_EQ(parse_kept_records(bytes)->records.size(), 1u);
}

TEST(KeptRecordsTest, OtherBytesAreNoIndex) {
  EXPECT_FALSE(parse_kept_records({}));
  EXPECT_FALSE(parse_kept_records(std::vector<std::byte>(4096)));
  auto bytes = index_of(1, {{0, {1, 2}}});
  bytes[9] ^= std::byte{1};
  EXPECT_FALSE(parse_kept_records(bytes));
}

}  // namespace
}  // namespace weightpager::spill
