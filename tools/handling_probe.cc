#include "tools/handling_probe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd.h"
#include "pager/pager.h"
#include "pager/window/mapper.h"
#include "pager/window/slot_pool.h"
#include "tools/live_policy.h"

namespace weightpager::tools {
namespace {

using Clock = std::chrono::steady_clock;
using fault::Outcome;
using simulate::CallCosts;
using simulate::Handling;

constexpr int rounds = 300;
constexpr uint64_t small_chunk_bytes = 128 * KiB;

struct Moved {
  uint64_t show_ns = 0;
  uint64_t take_out_ns = 0;
};

uint64_t median(std::vector<uint64_t>& times) {
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

uint64_t nanoseconds(Clock::duration duration) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(duration).count());
}

tl::unexpected<Error> refused() {
  return fail("the kernel refused to show memory or to take it out", "weightpager doctor");
}

/// A run of `count` chunks in and out of a region, by one call each.
Result<Moved> move_run(window::AddressSpace& own, window::Mapper& mapper, uint64_t chunk_bytes,
                       uint32_t count) {
  const uint64_t length_bytes = chunk_bytes * count;
  auto pool = window::SlotPool::create(count, chunk_bytes);
  if (!pool) return forward_error(std::move(pool));
  auto memory = window::SharedMemory::create(length_bytes, chunk_bytes);
  if (!memory) return forward_error(std::move(memory));
  const bool is_view = mapper.shares_memory();
  std::byte* const bytes = is_view ? (*memory)->at(0, 0) : (*pool)->address(0);
  auto region = window::Region::reserve(
      {.offset_bytes = 0, .length_bytes = length_bytes, .file_size_bytes = length_bytes},
      chunk_bytes, own, is_view ? (*memory)->view_fd() : window::Region::no_memory);
  if (!region) return forward_error(std::move(region));
  std::memset(bytes, 1, length_bytes);
  std::byte* const chunks = (*region)->address();
  const auto registered = is_view ? own.uffd().register_view(chunks, length_bytes)
                                  : own.uffd().register_range(chunks, length_bytes, true);
  if (!registered) return tl::make_unexpected(registered.error());
  if (auto ready = mapper.prepare_slots(own.uffd(), bytes, length_bytes); !ready) {
    return tl::make_unexpected(ready.error());
  }
  std::vector<uint64_t> show_ns;
  std::vector<uint64_t> take_out_ns;
  for (int round = 0; round < rounds; ++round) {
    const auto began = Clock::now();
    if (mapper.show(**region, {0, count}, bytes) != Outcome::done) return refused();
    const auto shown = Clock::now();
    // The engine looks at each page, so that what it remembers of page tables has to be flushed.
    for (uint64_t at = 0; at < length_bytes; at += os_page_bytes) {
      static_cast<void>(*reinterpret_cast<const volatile char*>(chunks + at));
    }
    const auto used = Clock::now();
    if (mapper.hide(**region, {0, count}, bytes) != Outcome::done) return refused();
    show_ns.push_back(nanoseconds(shown - began));
    take_out_ns.push_back(nanoseconds(Clock::now() - used));
  }
  return Moved{median(show_ns), median(take_out_ns)};
}

/// A straight line through two lengths.
CallCosts line(uint64_t short_ns, uint64_t long_ns, uint32_t times_longer) {
  constexpr uint64_t pages = small_chunk_bytes / os_page_bytes;
  const uint64_t chunk_ns = (std::max(long_ns, short_ns) - short_ns) / (times_longer - 1);
  return {short_ns - std::min(chunk_ns, short_ns), chunk_ns / pages};
}

Status measure_moves(Handling& handling) {
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  window::AddressSpace own(std::move(*uffd));
  for (const uint64_t chunk_bytes : {huge_page_bytes, small_chunk_bytes}) {
    auto mapper = window::choose_mapper("auto", own, chunk_bytes);
    if (!mapper) return forward_error(std::move(mapper));
    const auto single = move_run(own, **mapper, chunk_bytes, 1);
    if (!single) return tl::make_unexpected(single.error());
    if (chunk_bytes == huge_page_bytes) {
      handling.show_huge_ns = single->show_ns;
      handling.take_out_huge_ns = single->take_out_ns;
      continue;
    }
    // Mappers that move nothing show one chunk by one call.
    constexpr uint32_t many = 8;
    const bool moves = (*mapper)->registers_slots();
    const auto run = moves ? move_run(own, **mapper, chunk_bytes, many)
                           : Result<Moved>({single->show_ns * many, single->take_out_ns * many});
    if (!run) return tl::make_unexpected(run.error());
    handling.show = line(single->show_ns, run->show_ns, many);
    handling.take_out = line(single->take_out_ns, run->take_out_ns, many);
  }
  return {};
}

/// Touches of chunks that are in the window and out of the engine's sight, which computes in
/// between for long enough that the pager sleeps.
Status measure_fault(const std::string& path, Handling& handling) {
  constexpr uint64_t compute_ns = 300'000;
  constexpr uint32_t passes = 4;
  auto model = model::open_model(path);
  if (!model) return forward_error(std::move(model));
  simulate::Trace trace;
  trace.chunk_bytes = small_chunk_bytes;
  trace.chunks = static_cast<uint32_t>(window_bytes_min / small_chunk_bytes);
  // Just the window: all stays, and the half that was touched longest ago is hidden.
  const uint32_t touched = trace.chunks;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    trace.pass_begins.push_back(trace.touches.size());
    for (uint32_t chunk = 0; chunk < touched; ++chunk) {
      trace.touches.push_back({.chunk = chunk, .offset_bytes = 0, .compute_ns = compute_ns});
    }
  }
  LiveOptions options;
  options.policy = "lru";
  options.window_bytes = window_bytes_min;
  const auto run = run_live(*model, trace, options);
  if (!run) return tl::make_unexpected(run.error());
  const simulate::PassCounts& last = run->passes.back();
  // The kernel may refuse to hide one or the other.
  if (last.tripwires < touched / 2 || last.demand_reads > 0) {
    return fail(fmt::format("of {} touches of chunks in the window {} could be timed, and {} read",
                            touched, last.tripwires, last.demand_reads),
                "does another program need the processors? Then try again");
  }
  const uint64_t touch_ns =
      (last.time_ns - std::min(last.compute_ns, last.time_ns)) / last.tripwires;
  const uint64_t show_ns = handling.to_show(small_chunk_bytes, 1);
  handling.fault_ns = touch_ns - std::min(show_ns, touch_ns);
  return {};
}

}  // namespace

Result<Handling> measure_handling(const std::string& path) {
  Handling handling;
  if (auto done = measure_moves(handling); !done) return forward_error(std::move(done));
  if (auto done = measure_fault(path, handling); !done) return forward_error(std::move(done));
  return handling;
}

}  // namespace weightpager::tools
