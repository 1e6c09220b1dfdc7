// Reads through the gate: whole and right whatever their size, by urgency, and an end at any time.
#include "runtime/serve/disk_gate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "pager/base/units.h"

namespace weightpager::serve {
namespace {

constexpr uint64_t file_bytes = 24 * MiB;

class DiskGateTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = OwnedFd(memfd_create("gate", MFD_CLOEXEC));
    std::mt19937_64 random(1);
    words_.resize(file_bytes / 8);
    for (uint64_t& word : words_) word = random();
    ASSERT_EQ(pwrite(fd_.get(), words_.data(), file_bytes, 0), static_cast<ssize_t>(file_bytes));
  }

  io::Read read_of(uint64_t unit, uint64_t offset_bytes, uint32_t length_bytes,
                   std::byte* to) const {
    return {.tag = unit,
            .fd = fd_.get(),
            .offset_bytes = offset_bytes,
            .length_bytes = length_bytes,
            .buffer = to};
  }

  bool is_right(const std::vector<std::byte>& bytes, uint64_t offset_bytes) const {
    const auto* const whole = reinterpret_cast<const std::byte*>(words_.data());
    return std::equal(bytes.begin(), bytes.end(), whole + offset_bytes);
  }

  static std::vector<io::Completion> wait_for(io::Reader& reader, size_t reads) {
    std::vector<io::Completion> all;
    while (all.size() < reads) {
      const io::Wakeup wakeup = reader.wait(-1);
      all.insert(all.end(), wakeup.completions.begin(), wakeup.completions.end());
    }
    return all;
  }

  OwnedFd fd_;
  std::vector<uint64_t> words_;
};

TEST_F(DiskGateTest, ReadsOfAnySizeArriveWholeAndOnce) {
  DiskGate gate(1, {});
  gate.set_units(0, {30, 20, 10});
  auto reader = gate.open_reader(0, {.reads_max = 8, .read_bytes_max = 16 * MiB});
  ASSERT_TRUE(reader) << reader.error().message;
  gate.begin_inference(0, 1000, 1000);
  const uint32_t lengths[] = {4096, 2 * MiB, 2 * MiB + 4096, 9 * MiB + 8192};
  std::vector<std::vector<std::byte>> buffers;
  for (const uint32_t length : lengths) buffers.emplace_back(length);
  for (uint64_t i = 0; i < std::size(lengths); ++i) {
    (*reader)->start(read_of(i, i * 4096, lengths[i], buffers[i].data()));
  }
  EXPECT_EQ((*reader)->reads_in_flight(), std::size(lengths));
  auto completions = wait_for(**reader, std::size(lengths));
  EXPECT_EQ((*reader)->reads_in_flight(), 0u);
  std::sort(completions.begin(), completions.end(),
            [](const auto& a, const auto& b) { return a.tag < b.tag; });
  uint64_t all_bytes = 0;
  for (uint64_t i = 0; i < std::size(lengths); ++i) {
    EXPECT_EQ(completions[i].tag, i);
    EXPECT_EQ(completions[i].error_number, 0);
    EXPECT_EQ(completions[i].length_bytes, lengths[i]);
    EXPECT_TRUE(is_right(buffers[i], i * 4096));
    all_bytes += lengths[i];
  }
  EXPECT_EQ(gate.passed_bytes(0), all_bytes);
}

TEST_F(DiskGateTest, AReadBeyondTheEndSaysHowMuchIsGood) {
  DiskGate gate(1, {});
  gate.set_units(0, {1});
  auto reader = gate.open_reader(0, {.reads_max = 8, .read_bytes_max = 16 * MiB});
  ASSERT_TRUE(reader);
  std::vector<std::byte> buffer(8 * MiB);
  (*reader)->start(read_of(0, file_bytes - 3 * MiB, 8 * MiB, buffer.data()));
  const auto completions = wait_for(**reader, 1);
  EXPECT_EQ(completions[0].error_number, 0);
  EXPECT_EQ(completions[0].length_bytes, 3 * MiB);
  buffer.resize(3 * MiB);
  EXPECT_TRUE(is_right(buffer, file_bytes - 3 * MiB));
}

TEST_F(DiskGateTest, AnErrorIsTheReadsAndWhatCameBeforeItIsGood) {
  DiskGate gate(1, {});
  gate.set_units(0, {1});
  auto reader = gate.open_reader(0, {.reads_max = 8, .read_bytes_max = 16 * MiB});
  ASSERT_TRUE(reader);
  // The second piece and all after it have nowhere to go.
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, 8 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + 2 * MiB, 6 * MiB, PROT_NONE), 0);
  (*reader)->start(read_of(0, 0, 8 * MiB, memory));
  const auto completions = wait_for(**reader, 1);
  EXPECT_EQ(completions[0].error_number, EFAULT);
  EXPECT_EQ(completions[0].length_bytes, 2 * MiB);
  munmap(memory, 8 * MiB);
}

// One piece at the disk at a time: of what waits, the urgent one passes first. Whoever comes by
// does it for both, so what has passed is looked at before the call in which the urgent one ends.
TEST_F(DiskGateTest, TheUrgentOnePassesFirst) {
  DiskGate gate(2, {.in_flight_bytes_max = 1, .overtaking_bytes_max = 1 << 30});
  for (const uint32_t network : {0, 1}) gate.set_units(network, {0});
  gate.begin_inference(0, 2'000'000, 0);
  gate.begin_inference(1, 1'000'000, 0);
  std::vector<std::byte> relaxed(16 * MiB), urgent(8 * MiB);
  auto relaxed_reader = gate.open_reader(0, {.reads_max = 8, .read_bytes_max = 16 * MiB});
  ASSERT_TRUE(relaxed_reader);
  (*relaxed_reader)->start(read_of(0, 0, 16 * MiB, relaxed.data()));
  auto urgent_reader = gate.open_reader(1, {.reads_max = 8, .read_bytes_max = 16 * MiB});
  ASSERT_TRUE(urgent_reader);
  (*urgent_reader)->start(read_of(0, 0, 8 * MiB, urgent.data()));
  uint64_t relaxed_bytes = 0;
  do {
    relaxed_bytes = gate.passed_bytes(0);
  } while ((*urgent_reader)->wait(0).completions.empty());
  // No more than the piece that was let through before the urgent one asked.
  EXPECT_LE(relaxed_bytes, 2 * MiB);
  wait_for(**relaxed_reader, 1);
  EXPECT_TRUE(is_right(relaxed, 0));
  EXPECT_TRUE(is_right(urgent, 0));
}

// Who has long kernels need not come by for what it reads to be started and to arrive.
TEST_F(DiskGateTest, WhoComesByDoesItForAll) {
  DiskGate gate(2, {.in_flight_bytes_max = 1});
  for (const uint32_t network : {0, 1}) gate.set_units(network, {0});
  std::vector<std::byte> bytes(8 * MiB);
  auto computes = gate.open_reader(0, {.reads_max = 4, .read_bytes_max = 8 * MiB});
  auto comes_by = gate.open_reader(1, {.reads_max = 4, .read_bytes_max = 8 * MiB});
  ASSERT_TRUE(computes && comes_by);
  (*computes)->start(read_of(0, 4096, 8 * MiB, bytes.data()));
  while (gate.passed_bytes(0) < 8 * MiB) {
    EXPECT_TRUE((*comes_by)->wait(0).completions.empty());
  }
  EXPECT_TRUE(is_right(bytes, 4096));
  EXPECT_EQ((*computes)->reads_in_flight(), 1u) << "it does not know yet";
  EXPECT_EQ((*computes)->wait(0).completions.size(), 1u);
}

// On threads that look now and sleep then; room for fewer pieces than are wanted.
TEST_F(DiskGateTest, SideBySideEachGetsItsOwn) {
  constexpr uint32_t networks = 4;
  constexpr int rounds = 60;
  DiskGate gate(networks, {.in_flight_bytes_max = 4 * MiB});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint32_t network = 0; network < networks; ++network) {
    gate.set_units(network, {0});
    threads.emplace_back([&, network] {
      std::mt19937_64 random(network);
      auto reader = gate.open_reader(network, {.reads_max = 3, .read_bytes_max = 5 * MiB});
      for (int round = 0; round < rounds; ++round) {
        std::vector<std::vector<std::byte>> buffers;
        std::vector<uint64_t> offsets;
        for (uint64_t i = 0; i < 3; ++i) {
          buffers.emplace_back(4096 * (1 + random() % 1280));
          offsets.push_back(4096 * (random() % 4096));
          (*reader)->start(
              read_of(i, offsets[i], static_cast<uint32_t>(buffers[i].size()), buffers[i].data()));
        }
        size_t arrived = 0;
        while (arrived < 3) {
          arrived += (*reader)->wait(random() % 2 == 0 ? 0 : -1).completions.size();
        }
        for (size_t i = 0; i < 3; ++i) wrong += is_right(buffers[i], offsets[i]) ? 0 : 1;
      }
    });
  }
  for (std::thread& it : threads) it.join();
  EXPECT_EQ(wrong, 0);
}

// What others wait for must not be held up by one that has gone.
TEST_F(DiskGateTest, AReaderThatGoesLeavesTheDiskToOthers) {
  DiskGate gate(2, {.in_flight_bytes_max = 1});
  for (const uint32_t network : {0, 1}) gate.set_units(network, {0});
  std::vector<std::byte> first(16 * MiB), second(16 * MiB);
  for (int round = 0; round < 8; ++round) {
    std::fill(second.begin(), second.end(), std::byte{0});
    std::thread goes([&] {
      auto reader = gate.open_reader(0, {.reads_max = 4, .read_bytes_max = 16 * MiB});
      ASSERT_TRUE(reader);
      (*reader)->start(read_of(0, 0, 16 * MiB, first.data()));
      for (int i = 0; i < round; ++i) (*reader)->wait(0);
    });
    auto stays = gate.open_reader(1, {.reads_max = 4, .read_bytes_max = 16 * MiB});
    ASSERT_TRUE(stays);
    (*stays)->start(read_of(0, 0, 16 * MiB, second.data()));
    wait_for(**stays, 1);
    goes.join();
    EXPECT_TRUE(is_right(second, 0));
  }
}

}  // namespace
}  // namespace weightpager::serve
