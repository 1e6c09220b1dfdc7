// What it would cost to show small chunks by mapping them, instead of moving their pages.
//
// Problem. The mapper "move" reads chunks of 128 KiB into small pages, and moves these one by one:
// the kernel does each of them twice, in and out, and once more for the read (registered_bench.cc).
// Memory in huge pages would be read for a tenth of that, but a huge page can only be moved whole.
//
// Idea. Slots are shared memory in huge pages that never move. A run of neighbours is shown by
// mapping their slots into the region, read-only, and hidden by mapping empty memory there again
// and telling the userfaultfd of it. A call costs some µs and divides the region's mapping, and
// each page costs an entry of the page table, but no page is touched. No mapper does this; the
// figures tell whether one should.
//
//     build/release/bench/mapped_runs_bench
//
// Argument: KiB of the run. "each" is for 128 KiB. Beside it pager_bench's chunk_in_and_out.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstring>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/memory_file.h"

namespace weightpager {
namespace {

constexpr uint64_t slots_bytes = 64 * MiB;
constexpr uint64_t region_bytes = 256 * MiB;
constexpr uint64_t small_chunk_bytes = 128 * KiB;

/// Maps as mmap does, over what is there. Returns whether it did.
bool map_over(std::byte* address, uint64_t length_bytes, int protection, int flags, int fd = -1,
              uint64_t offset_bytes = 0) {
  return mmap(address, length_bytes, protection, flags | MAP_FIXED, fd,
              static_cast<off_t>(offset_bytes)) == address;
}

bool map_nothing(std::byte* address, uint64_t length_bytes) {
  return map_over(address, length_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

void run_in_and_out(benchmark::State& state) {
  const auto run_bytes = static_cast<uint64_t>(state.range(0)) * KiB;
  auto slots = window::MemoryFile::create(slots_bytes, chunk_bytes_max);
  if (!slots) return state.SkipWithError(slots.error().message.c_str());
  if (!(*slots)->has_huge_pages()) return state.SkipWithError("no shared memory in huge pages");
  std::memset((*slots)->at(0), 1, slots_bytes);
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return state.SkipWithError(uffd.error().message.c_str());
  void* const region = mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) return state.SkipWithError("no address space");
  auto* const begin = static_cast<std::byte*>(region);
  if (!uffd->register_range(begin, region_bytes)) return state.SkipWithError("not registered");

  uint64_t at_bytes = 0;
  for (auto _ : state) {
    // Neither the slot nor the place in the region is on the grid of huge pages.
    at_bytes = (at_bytes + run_bytes + 3 * small_chunk_bytes) % (region_bytes - run_bytes);
    const uint64_t slot_bytes = (at_bytes * 5 + small_chunk_bytes) % (slots_bytes - run_bytes);
    std::byte* const shown = begin + at_bytes;
    if (!map_over(shown, run_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, (*slots)->view_fd(),
                  slot_bytes)) {
      return state.SkipWithError("the kernel refused to show");
    }
    benchmark::DoNotOptimize(*reinterpret_cast<const volatile char*>(shown));
    if (!map_nothing(shown, run_bytes) || !uffd->register_range(shown, run_bytes)) {
      return state.SkipWithError("the kernel refused to hide");
    }
  }
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(run_bytes / small_chunk_bytes),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  munmap(region, region_bytes);
}
BENCHMARK(run_in_and_out)->ArgName("KiB")->Arg(128)->Arg(512)->Arg(2048)->Arg(3200);

}  // namespace
}  // namespace weightpager
