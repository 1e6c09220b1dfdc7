#include "pager/spill/content_hash.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace weightpager::spill {
namespace {

TEST(ContentHashTest, EqualBytesHaveEqualHashesWhereverTheyLie) {
  std::vector<std::byte> bytes(65'536 + 64), moved(bytes.size() + 3);
  std::mt19937 random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 3);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{4096}, bytes.size()}) {
    EXPECT_EQ(content_hash(bytes.data(), length), content_hash(moved.data() + 3, length));
  }
}

TEST(ContentHashTest, EveryBitAndTheLengthCount) {
  std::vector<std::byte> bytes(4096);
  std::set<std::pair<uint64_t, uint64_t>> seen;
  const auto see = [&](uint64_t length) {
    const ContentHash hash = content_hash(bytes.data(), length);
    EXPECT_TRUE(seen.emplace(hash.low, hash.high).second);
  };
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    see(bytes.size());
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
  for (size_t length = 0; length <= bytes.size(); ++length) see(length);
}

TEST(ContentHashTest, OneByteAnywhereIsNotAllZero) {
  std::vector<std::byte> bytes(3 * 4096 + 123);
  for (size_t begin : {0, 1, 63}) {
    const std::byte* first = bytes.data() + begin;
    EXPECT_TRUE(is_all_zero(first, 0));
    EXPECT_TRUE(is_all_zero(first, bytes.size() - begin));
    for (size_t at = 0; at < bytes.size(); at += 61) {
      bytes[at] = std::byte{0x80};
      EXPECT_EQ(is_all_zero(first, bytes.size() - begin), at < begin);
      EXPECT_TRUE(at < begin || is_all_zero(first, at - begin)) << "the byte behind counts";
      bytes[at] = std::byte{0};
    }
  }
}

TEST(ContentHashTest, APageOfZerosAnywhereIsFound) {
  std::vector<std::byte> bytes(5 * 4096, std::byte{1});
  EXPECT_FALSE(has_zero_page(bytes.data(), bytes.size()));
  for (size_t page = 0; page < 5; ++page) {
    std::fill_n(bytes.begin() + page * 4096, 4096, std::byte{0});
    EXPECT_TRUE(has_zero_page(bytes.data(), bytes.size())) << page;
    bytes[page * 4096 + 4095] = std::byte{1};
    EXPECT_FALSE(has_zero_page(bytes.data(), bytes.size())) << page;
  }
}

}  // namespace
}  // namespace weightpager::spill
