// What the pager costs beside the disk: one chunk in and out of a region, a touch of a ready chunk,
// and the CPU time of streaming a file through a small window.
//
//     WP_BENCH_FILE=model.gguf build/release/bench/pager_bench
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "bench/one_chunk.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "pager/model/model.h"
#include "pager/pager.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/slot_pool.h"

namespace weightpager {
namespace {

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One chunk, there and back, in a process with one thread, or so many neighbours at once.
// UFFDIO_MOVE; or COPY and MADV_DONTNEED; or MADV_COLLAPSE or UFFDIO_CONTINUE, and MADV_DONTNEED of
// a view.
void chunk_in_and_out(benchmark::State& state, const char* name, uint64_t chunk_bytes,
                      uint32_t chunks = 1) {
  auto chunk = OneChunk::create(name, chunk_bytes, 0, chunks);
  if (!chunk) return state.SkipWithError(chunk.error().message.c_str());
  for (auto _ : state) {
    if (!(*chunk)->show() || !(*chunk)->hide()) return state.SkipWithError("the kernel refused");
  }
  state.counters["each"] = benchmark::Counter(
      chunks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(chunk_in_and_out, move, "move", 2 * MiB);
BENCHMARK_CAPTURE(chunk_in_and_out, collapse, "collapse", 2 * MiB);
BENCHMARK_CAPTURE(chunk_in_and_out, copy, "copy", 2 * MiB);
BENCHMARK_CAPTURE(chunk_in_and_out, move_128KiB, "move", 128 * KiB);
BENCHMARK_CAPTURE(chunk_in_and_out, collapse_128KiB, "collapse", 128 * KiB);
BENCHMARK_CAPTURE(chunk_in_and_out, copy_128KiB, "copy", 128 * KiB);
BENCHMARK_CAPTURE(chunk_in_and_out, move_16_of_128KiB, "move", 128 * KiB, 16);
BENCHMARK_CAPTURE(chunk_in_and_out, collapse_16_of_128KiB, "collapse", 128 * KiB, 16);

// How fast the kernel (and the host of a virtual machine) hands out memory for slots: a cold start
// cannot fill its window faster.
void make_slots(benchmark::State& state) {
  constexpr uint32_t slots = 512;
  for (auto _ : state) {
    auto pool = window::SlotPool::create(slots, chunk_bytes_max);
    if (!pool) return state.SkipWithError("no address space");
    (*pool)->want(
        slots, [](void*) {}, nullptr);
    while ((*pool)->populated() < slots) std::this_thread::yield();
    state.PauseTiming();  // giving the memory back is not part of it
    pool->reset();
    std::this_thread::sleep_for(std::chrono::seconds(3));
    state.ResumeTiming();
  }
  state.counters["made"] = benchmark::Counter(static_cast<double>(slots * chunk_bytes_max),
                                              benchmark::Counter::kIsIterationInvariantRate,
                                              benchmark::Counter::OneK::kIs1000);
}
BENCHMARK(make_slots)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

// One pass over the file through a window of 256 MiB, touching a byte of every chunk: the disk sets
// the pace; cpu_s_per_GiB is the CPU time of the whole process, pager and toucher.
void stream(benchmark::State& state, const char* mapper, uint64_t chunk_bytes = chunk_bytes_max) {
  const char* path = std::getenv("WP_BENCH_FILE");
  if (path == nullptr) return state.SkipWithError("set WP_BENCH_FILE to a file of some GiB");
  auto telemetry = telemetry::create("");
  auto file = io::ModelFile::open(path);
  if (!file) return state.SkipWithError(file.error().message.c_str());
  PagerOptions options;
  options.window_bytes = 256 * MiB;
  options.mapper = mapper;
  options.chunk_bytes = chunk_bytes;
  options.device = io::device_limits(file->fd());
  options.telemetry = *telemetry;
  auto pager = Pager::start(options);
  if (!pager) return state.SkipWithError(pager.error().message.c_str());
  const auto model = model::open_model_file(path);
  if (!model) return state.SkipWithError(model.error().message.c_str());
  RegionRequest request;
  request.path = request.name = path;
  request.length_bytes = file->size_bytes();
  request.model = &*model;
  const auto region = (*pager)->add_region(request);
  if (!region) return state.SkipWithError(region.error().message.c_str());

  const auto pass = [&] {
    for (uint64_t at = 0; at < file->size_bytes(); at += chunk_bytes) {
      benchmark::DoNotOptimize(*reinterpret_cast<const volatile char*>(*region + at));
    }
  };
  pass();  // fills the window, learns the order
  const uint64_t bytes_before = (*telemetry)->read_bytes;
  const double cpu_before = cpu_seconds();
  for (auto _ : state) pass();
  const auto bytes = static_cast<double>((*telemetry)->read_bytes - bytes_before);
  state.counters["cpu_s_per_GiB"] = (cpu_seconds() - cpu_before) / (bytes / GiB);
  state.counters["read"] =
      benchmark::Counter(bytes, benchmark::Counter::kIsRate, benchmark::Counter::OneK::kIs1000);
  (*pager)->remove(*region, file->size_bytes());
}
BENCHMARK_CAPTURE(stream, move, "move")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(stream, collapse, "collapse")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(stream, copy, "copy")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(stream, move_128KiB, "move", 128 * KiB)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(stream, collapse_128KiB, "collapse", 128 * KiB)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace weightpager
