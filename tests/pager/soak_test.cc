// Everything at once, for long: threads that touch, write, advise and unmap while the window
// changes its size. Every word that is read is the right one, and no slot is lost. WP_SOAK_MOVES
// says how many times chunks go in or out (a million takes minutes; without it, a moment).
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

constexpr uint64_t soaked_file_bytes = 96 * MiB;
constexpr uint64_t written_from = 88 * MiB;  // only this part of the writable region is written to

class SoakTest : public PagerTest {
 protected:
  uint64_t moves() const { return 2 * telemetry_->evictions.load(); }

  /// A page that two views show counts once.
  static uint64_t resident_bytes() {
    std::ifstream rollup("/proc/self/smaps_rollup");
    std::string word;
    uint64_t kibibytes = 0;
    while (rollup >> word) {
      if (word == "Pss:") rollup >> kibibytes;
    }
    return kibibytes * KiB;
  }

  void touch(const std::byte* region, std::mt19937_64& random, uint64_t end) {
    const uint64_t at = random() % (end / 8) * 8;
    if (load(region + at) != word_at(at)) ++wrong_words_;
  }

  void advise(std::byte* region, std::mt19937_64& random) {
    constexpr Advice advice[] = {Advice::will_need, Advice::consumed, Advice::discard};
    const uint64_t at = random() % (written_from / os_page_bytes) * os_page_bytes;
    pager_->advise(region + at, random() % (8 * MiB) + 1, advice[random() % 3]);
  }

  void write(std::byte* region, std::mt19937_64& random, uint64_t thread) {
    const uint64_t at = written_from + random() % 1024 * 4096 + thread * 8;
    *reinterpret_cast<volatile uint64_t*>(region + at) = at;
    if (load(region + at) != at) ++wrong_words_;
  }

  void map_and_unmap(const PatternFile& file, std::mt19937_64& random) {
    const uint64_t offset = random() % 1000 * os_page_bytes;
    std::byte* region = map(file, offset, 10 * MiB);
    for (uint64_t at = 0; at < 10 * MiB; at += 3 * MiB) {
      if (load(region + at) != word_at(offset + at)) ++wrong_words_;
    }
    pager_->remove(region, 4 * MiB);
    pager_->remove(region + 4 * MiB, 6 * MiB);
  }

  std::atomic<uint64_t> wrong_words_{0};
};

INSTANTIATE_TEST_SUITE_P(Mappers, SoakTest, ::testing::ValuesIn(mappers_and_chunks), name_of);

TEST_P(SoakTest, EightThreadsFindTheRightBytes) {
  const char* wanted = std::getenv("WP_SOAK_MOVES");
  const uint64_t moves_wanted = wanted == nullptr ? 2000 : std::strtoull(wanted, nullptr, 10);
  PatternFile file(soaked_file_bytes);
  std::byte* shared = map(file);
  std::byte* writable = map_writable(file);
  const uint64_t before_bytes = resident_bytes();
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 8; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      while (moves() < moves_wanted) {
        const uint64_t dice = random() % 1000;
        if (dice < 2) {
          pager_->resize((32 + random() % 40) * MiB);
        } else if (dice < 20) {
          advise(number % 2 == 0 ? shared : writable, random);
        } else if (dice < 22) {
          map_and_unmap(file, random);
        } else if (dice < 100) {
          write(writable, random, number);
        } else if (dice < 600) {
          touch(shared, random, soaked_file_bytes);
        } else {
          touch(writable, random, written_from);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_words_.load(), 0u);
  EXPECT_EQ(telemetry_->read_errors.load(), 0u);

  // Small again, and everything gone through once more: the window is whole, and no more than that.
  EXPECT_EQ(pager_->resize(32 * MiB), 32 * MiB);
  for (uint64_t at = 0; at < soaked_file_bytes; at += 4096)
    ASSERT_EQ(load(shared + at), word_at(at));
  const uint64_t written_bytes = soaked_file_bytes - written_from + 2 * chunk_bytes();
#ifdef __SANITIZE_THREAD__
  const uint64_t shadow_bytes = 256 * MiB;  // what the sanitizer notes of every word touched
#else
  const uint64_t shadow_bytes = 0;
#endif
  EXPECT_LE(resident_bytes(), before_bytes + 32 * MiB + written_bytes + 8 * MiB + shadow_bytes);
  EXPECT_GE(telemetry_->resident_bytes.load(), 20 * MiB);
  pager_->remove(shared, soaked_file_bytes);
  pager_->remove(writable, soaked_file_bytes);
}

}  // namespace
}  // namespace weightpager
