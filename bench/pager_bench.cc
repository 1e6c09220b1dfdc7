// What the pager costs beside the disk: one chunk in and out of a region, a touch of a ready chunk,
// the CPU time of streaming a file through a small window, and chunks of spilled memory: in for the
// first time, out with a write, out without one and back.
//
//     WP_BENCH_FILE=model.gguf WP_BENCH_SPILL=/var/tmp build/release/bench/pager_bench
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

// ---- Spilled memory ----

enum class Walk { fills, rewrites, reads };

constexpr uint64_t spilled_memory_bytes = 512 * MiB;
constexpr uint64_t spilled_window_bytes = 128 * MiB;

/// The bytes of each of its chunks are others than before, if it writes.
void walk(std::byte* memory, bool writes, uint64_t turn) {
  for (uint64_t at = 0; at < spilled_memory_bytes; at += os_page_bytes) {
    auto* const word = reinterpret_cast<volatile uint64_t*>(memory + at);
    if (writes) {
      *word = at * 0x9e3779b97f4a7c15u + turn + 1;
    } else {
      benchmark::DoNotOptimize(*word);
    }
  }
}

// A pass over memory four times as large as the window. `fills`: for the first time, so that each
// chunk comes as zeros and goes with a write. `rewrites`: each chunk comes back from the spill
// file, and goes with a write. `reads`: it goes without one.
void spilled(benchmark::State& state, Walk kind) {
  const char* const folder = std::getenv("WP_BENCH_SPILL");
  if (folder == nullptr) return state.SkipWithError("set WP_BENCH_SPILL to a folder on a disk");
  auto telemetry = telemetry::create("");
  PagerOptions options;
  options.window_bytes = spilled_window_bytes;
  options.spill_folder = folder;
  options.gets_memory_first = true;
  options.telemetry = *telemetry;
  auto pager = Pager::start(options);
  if (!pager) return state.SkipWithError(pager.error().message.c_str());
  const auto memory =
      (*pager)->add_spilled_memory({.name = "memory", .length_bytes = spilled_memory_bytes});
  if (!memory) return state.SkipWithError(memory.error().message.c_str());
  if (kind != Walk::fills) {
    walk(*memory, true, 0);
    for (int pass = 0; pass < 3; ++pass) walk(*memory, false, 0);  // the order is learned
  }
  const telemetry::Telemetry& counters = **telemetry;
  const uint64_t written_before = counters.spill_written_bytes;
  const uint64_t read_before = counters.read_bytes;
  const double cpu_before = cpu_seconds();
  uint64_t turn = 0;
  for (auto _ : state) {
    walk(*memory, kind != Walk::reads, ++turn);
    if (kind != Walk::fills) continue;
    state.PauseTiming();
    (*pager)->forget(*memory, spilled_memory_bytes);
    state.ResumeTiming();
  }
  const auto passes = static_cast<double>(state.iterations());
  const auto rate = [&](uint64_t bytes) {
    return benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsRate,
                              benchmark::Counter::OneK::kIs1000);
  };
  state.counters["cpu_ms_per_chunk"] =
      1000 * (cpu_seconds() - cpu_before) / passes / (spilled_memory_bytes / chunk_bytes_max);
  state.counters["written"] = rate(counters.spill_written_bytes - written_before);
  state.counters["read"] = rate(counters.read_bytes - read_before);
  (*pager)->remove(*memory, spilled_memory_bytes);
}
BENCHMARK_CAPTURE(spilled, in_as_zeros_out_with_write, Walk::fills)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(3);
BENCHMARK_CAPTURE(spilled, in_out_with_write, Walk::rewrites)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(5);
BENCHMARK_CAPTURE(spilled, in_out_clean, Walk::reads)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(10);

}  // namespace
}  // namespace weightpager
