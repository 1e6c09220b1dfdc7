// What it costs to look at a chunk that leaves the window (pager/spill/content_hash.h): the hash of
// 2 MiB, the check for zeros, and beside them a copy. One thread; the chunks come from memory, not
// from a cache: between two visits of a chunk, 512 MiB of others are visited.
//
//     build/release/bench/content_hash_bench
//
// Medians of nine repeats. The copy's bytes count once, though it reads and writes them.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "pager/base/units.h"
#include "pager/spill/content_hash.h"

namespace weightpager {
namespace {

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uint64_t chunks = 256;

class Chunks {
 public:
  const std::byte* next() {
    const std::byte* chunk = bytes_.data() + at_ * chunk_bytes;
    at_ = (at_ + 1) % chunks;
    return chunk;
  }
  std::byte* next_to_write() { return const_cast<std::byte*>(next()); }
  void fill() {
    std::mt19937_64 random(1);
    for (uint64_t at = 0; at < bytes_.size(); at += 8) {
      const uint64_t word = random();
      std::memcpy(bytes_.data() + at, &word, 8);
    }
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(chunks * chunk_bytes);
  uint64_t at_ = 0;
};

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(chunk_bytes));
}

void hash(benchmark::State& state) {
  Chunks from;
  from.fill();
  for (auto _ : state) benchmark::DoNotOptimize(spill::content_hash(from.next(), chunk_bytes));
  count_bytes(state);
}

void zero_check(benchmark::State& state) {
  Chunks from;
  for (auto _ : state) benchmark::DoNotOptimize(spill::is_all_zero(from.next(), chunk_bytes));
  count_bytes(state);
}

void zero_check_of_weights(benchmark::State& state) {
  Chunks from;
  from.fill();
  for (auto _ : state) benchmark::DoNotOptimize(spill::is_all_zero(from.next(), chunk_bytes));
  count_bytes(state);
}

void copy(benchmark::State& state) {
  Chunks from, to;
  from.fill();
  for (auto _ : state) {
    std::memcpy(to.next_to_write(), from.next(), chunk_bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void in_repeats(benchmark::internal::Benchmark* of) {
  of->Repetitions(9)->ReportAggregatesOnly()->Unit(benchmark::kMicrosecond)->MinTime(0.3);
}
BENCHMARK(hash)->Apply(in_repeats);
BENCHMARK(zero_check)->Apply(in_repeats);
BENCHMARK(zero_check_of_weights)->Apply(in_repeats);
BENCHMARK(copy)->Apply(in_repeats);

}  // namespace
}  // namespace weightpager
