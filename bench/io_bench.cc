// How fast the readers get chunks off a device, and what that costs in processor time.
//
//   WP_BENCH_FILE=/path/to/a/large/file build/release/bench/io_bench
//
// Arguments: chunks in flight, KiB per request to the device. The bytes land in huge pages, as they
// do in the window, and in more of them than a processor's cache holds: into few buffers, used over
// and over, a virtual disk copies faster than it ever will into a window. Passes go on where the
// last one stopped, so that the file's size, not a pass's, decides what the host may have cached.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>

#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"

namespace weightpager::io {
namespace {

constexpr uint64_t chunks_per_pass = 512;
constexpr uint64_t slot_count = 128;

/// Chunk-sized buffers in huge pages, as far as the system has them, touched once, used in turn.
class Slots {
 public:
  Slots() : mapped_bytes_((slot_count + 1) * chunk_bytes_max) {
    memory_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    first_ = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<uintptr_t>(memory_), chunk_bytes_max));
    madvise(first_, slot_count * chunk_bytes_max, MADV_HUGEPAGE);
    madvise(first_, slot_count * chunk_bytes_max, MADV_POPULATE_WRITE);
  }
  ~Slots() { munmap(memory_, mapped_bytes_); }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::byte* buffer(uint64_t slot) const { return first_ + slot * chunk_bytes_max; }

 private:
  size_t mapped_bytes_;
  void* memory_;
  std::byte* first_;
};

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Reads the next `chunks_per_pass` chunks of the file, `depth` in flight. Returns whether all
/// arrived.
bool read_pass(Reader& reader, const ModelFile& file, const Slots& slots, uint32_t depth) {
  static uint64_t next = 0;
  const uint64_t chunks_of_file = file.size_bytes() / chunk_bytes_max;
  const uint64_t end = next + chunks_per_pass;
  std::deque<uint64_t> free_slots(slot_count);
  std::iota(free_slots.begin(), free_slots.end(), 0);
  bool all_arrived = true;
  while (next < end || reader.reads_in_flight() > 0) {
    for (; next < end && reader.reads_in_flight() < depth; next++) {
      reader.start({.tag = free_slots.front(),
                    .fd = file.fd(),
                    .offset_bytes = next % chunks_of_file * chunk_bytes_max,
                    .length_bytes = chunk_bytes_max,
                    .buffer = slots.buffer(free_slots.front())});
      free_slots.pop_front();
    }
    for (const Completion& completion : reader.wait(-1).completions) {
      all_arrived &= completion.length_bytes == chunk_bytes_max;
      free_slots.push_back(completion.tag);
    }
  }
  return all_arrived;
}

template <auto open_reader>
void read_chunks(benchmark::State& state) {
  const char* path = std::getenv("WP_BENCH_FILE");
  if (!path) return state.SkipWithError("set WP_BENCH_FILE to a file of some GiB");
  const auto file = ModelFile::open(path);
  if (!file) return state.SkipWithError(file.error().message.c_str());
  if (file->size_bytes() < chunk_bytes_max)
    return state.SkipWithError("the file has less than 2 MiB");

  const auto depth = static_cast<uint32_t>(state.range(0));
  const auto device_read_bytes = static_cast<uint32_t>(state.range(1) * KiB);
  const auto reader = open_reader({.reads_max = depth, .device_read_bytes = device_read_bytes});
  if (!reader) return state.SkipWithError(reader.error().message.c_str());

  const Slots slots;
  const double processor_seconds_before = processor_seconds();
  for ([[maybe_unused]] auto pass : state) {
    if (!read_pass(**reader, *file, slots, depth)) return state.SkipWithError("a read fell short");
  }
  const double bytes = static_cast<double>(state.iterations() * chunks_per_pass * chunk_bytes_max);
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["cpu_s/GiB"] = (processor_seconds() - processor_seconds_before) / (bytes / GiB);
  state.SetLabel(file->is_direct() ? "direct" : "cached");
}

void depths_and_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"chunks", "KiB"})
      ->ArgsProduct({{1, 4, 8, 16, 32}, {256, 512, 1024, 2048}})
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1)
      ->UseRealTime();
}

BENCHMARK(read_chunks<open_uring_reader>)->Name("io_uring")->Apply(depths_and_sizes);
BENCHMARK(read_chunks<open_pread_reader>)->Name("pread")->Apply(depths_and_sizes);

}  // namespace
}  // namespace weightpager::io
