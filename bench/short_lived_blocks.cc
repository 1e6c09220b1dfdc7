// An engine whose large blocks live shortly, as activations of long prompts do: it takes blocks,
// writes to each of their pages or to all of their bytes, and gives them back, some at a time.
//
// It knows nothing of weightpager. bench/short_lived_blocks.py runs it with and without --spill.
//
//     short_lived_blocks MIB_MIN MIB_MAX BYTES_APART SECONDS
//
// Each block has MIB_MIN to MIB_MAX MiB; every BYTES_APART-th byte of it is written. The first half
// second is not counted. Prints a JSON object: blocks a second, and processor time a block, of all
// threads.
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t blocks_at_once = 3;
constexpr double warm_up_s = 0.5;
constexpr size_t mib = size_t{1} << 20;

double processor_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& it) {
    return static_cast<double>(it.tv_sec) + static_cast<double>(it.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// What was written first is read back.
void write_block(void* block, size_t length_bytes, size_t bytes_apart, uint8_t value) {
  auto* const bytes = static_cast<volatile uint8_t*>(block);
  if (bytes_apart == 1) {
    std::memset(block, value, length_bytes);
  } else {
    for (size_t at = 0; at < length_bytes; at += bytes_apart) bytes[at] = value;
  }
  if (bytes[0] != value) std::exit(1);
}

class Engine {
 public:
  Engine(size_t mib_min, size_t mib_max, size_t bytes_apart)
      : length_mib_(mib_min, mib_max), bytes_apart_(bytes_apart) {}

  /// Returns how many blocks it had.
  uint64_t run(double seconds) {
    const auto end = Clock::now() + Seconds(seconds);
    uint64_t blocks = 0;
    while (Clock::now() < end) {
      use_one();
      ++blocks;
    }
    return blocks;
  }

 private:
  // The oldest block goes, the others stay meanwhile.
  void use_one() {
    void*& oldest = held_[next_++ % held_.size()];
    std::free(oldest);
    const size_t length_bytes = length_mib_(random_) * mib;
    oldest = std::malloc(length_bytes);
    if (oldest == nullptr) std::exit(1);
    write_block(oldest, length_bytes, bytes_apart_, static_cast<uint8_t>(next_));
  }

  std::minstd_rand random_{1};
  std::uniform_int_distribution<size_t> length_mib_;
  size_t bytes_apart_;
  std::array<void*, blocks_at_once> held_{};
  size_t next_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: short_lived_blocks MIB_MIN MIB_MAX BYTES_APART SECONDS\n");
    return 2;
  }
  const auto number = [&](int at) { return std::strtoull(arguments[at], nullptr, 10); };
  Engine engine(number(1), number(2), number(3));
  engine.run(warm_up_s);
  const auto begin = Clock::now();
  const double processor_begin_s = processor_s();
  const uint64_t blocks = engine.run(std::atof(arguments[4]));
  const double elapsed_s = Seconds(Clock::now() - begin).count();
  std::printf("{\"blocks_per_s\": %.1f, \"processor_us_per_block\": %.3f}\n",
              static_cast<double>(blocks) / elapsed_s,
              (processor_s() - processor_begin_s) / static_cast<double>(blocks) * 1e6);
}
