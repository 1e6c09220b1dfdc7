// How fast the readers get chunks off a device, and what that costs in processor time.
//
//   WP_BENCH_FILE=/path/to/a/large/file build/release/bench/io_bench
//
// Arguments: chunks in flight, KiB per request to the device (bench/raw_reads.h).
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>

#include "bench/raw_reads.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"

namespace weightpager::io {
namespace {

constexpr uint64_t chunks_per_pass = 512;

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
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

  const RawBuffers buffers;
  const double processor_seconds_before = processor_seconds();
  for ([[maybe_unused]] auto pass : state) {
    if (!read_raw(**reader, *file, buffers, chunks_per_pass, chunk_bytes_max, depth))
      return state.SkipWithError("a read fell short");
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
