#include "pager/loop/chunk_mover.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/telemetry/probes.h"
#include "pager/window/live_pages.h"

namespace weightpager {

namespace probes = telemetry::probes;
using fault::Outcome;
using policy::ChunkId;
using telemetry::add;
using telemetry::EventKind;
using window::ChunkState;
using window::Region;
using window::Run;

namespace {

// Chunks that are hidden between two looks at faults, when a sample begins: 1 ms.
constexpr uint32_t hidden_at_once = 64;

}  // namespace

// ---- Show ----

void ChunkMover::show(const Run& run) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  const bool is_at_once =
      run.count > 1 && parts_.memory.backing().show_together(parts_.files.owner(run.first), run);
  if (!is_at_once) {
    for (uint32_t i = 0; i < run.count; ++i) show(run.first + i);
    return;
  }
  probes::map(run.first, run.count);
  parts_.recorder.note(EventKind::map, run.first, run.count);
  for (uint32_t i = 0; i < run.count; ++i) stop_waiting(run.first + i);
  account_show(run.count, began_ns);
}

void ChunkMover::show(ChunkId chunk, bool is_retry) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  const Outcome outcome = parts_.memory.backing().show(parts_.files.owner(chunk), chunk,
                                                       parts_.waiters.are_at(chunk), is_retry);
  switch (outcome) {
    case Outcome::done:
      probes::map(chunk, 1);
      parts_.recorder.note(EventKind::map, chunk);
      stop_waiting(chunk);
      parts_.memory.trim_slots();
      return account_show(1, began_ns);
    case Outcome::busy:
      // It lay in parts of regions only, and has to be read anew.
      if (parts_.table.state(chunk) == ChunkState::absent) {
        return parts_.policy.policy().on_touch(chunk, policy::anywhere);
      }
      // Nobody waits: it stays ready, and is shown when it is touched. Somebody waits: again in a
      // moment.
      if (parts_.waiters.are_at(chunk)) parts_.waiters.retry_later(chunk);
      return;
    case Outcome::exists:
      return fail(chunk, "the address range of the model was written to by somebody else", EEXIST);
    case Outcome::gone:
    case Outcome::failed:
      return fail(chunk, "the kernel refused to map it", errno);
  }
}

void ChunkMover::retry() {
  for (uint32_t left = parts_.waiters.retries(); left > 0; --left) {
    const ChunkId chunk = parts_.waiters.take_retry();
    const ChunkState state = parts_.table.state(chunk);
    const bool is_there = state == ChunkState::mapped || state == ChunkState::ready;
    if (is_there && parts_.waiters.are_at(chunk)) show(chunk, true);
  }
}

void ChunkMover::stop_waiting(ChunkId chunk) {
  if (!parts_.waiters.are_at(chunk)) return;
  const ServedFile& served = parts_.files.owner(chunk);
  served.for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const bool must_retry = notes.is_waited_for && !notes.is_placed;
    notes.is_waited_for = false;
    if (must_retry) window::wake_live_pages(region, index);
  });
  const uint64_t now_ns = telemetry::monotonic_ns();
  parts_.waiters.end(served, chunk, now_ns);
  parts_.recorder.mark_served(chunk, now_ns);
  parts_.recorder.note_served(chunk, now_ns);
  probes::served(chunk, parts_.waiters.chunks());
}

// ---- Hide ----

bool ChunkMover::hide(ChunkId chunk, bool is_used_whole) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  const bool can_be_hidden = parts_.table.state(chunk) == ChunkState::mapped &&
                             parts_.table.slot(chunk) != window::no_slot &&
                             !parts_.waiters.are_at(chunk);
  if (!can_be_hidden) return false;
  const ServedFile& served = parts_.files.owner(chunk);
  if (served.is_spilled() && is_spilled_held_) return false;
  // What is to be written to the spill file has to lie in its slot.
  is_used_whole = is_used_whole && !served.is_spilled();
  if (!parts_.memory.backing().hide(served, chunk, is_used_whole)) return false;
  account_hide(1, began_ns);
  return true;
}

void ChunkMover::hide_for_sample() {
  for (uint32_t left = hidden_at_once;
       left > 0 && parts_.recorder.is_hiding(parts_.table.chunks());) {
    if (hide(parts_.recorder.take_to_hide(), false)) --left;
  }
}

// ---- Evict ----

void ChunkMover::evict(const Run& run) {
  const ServedFile& served = parts_.files.owner(run.first);
  uint32_t evicted = 0;
  for (uint32_t done = 0; done < run.count;) {
    const uint64_t began_ns = telemetry::monotonic_ns();
    const ChunkId first = run.first + done;
    const bool is_shown = parts_.table.state(first) == ChunkState::mapped;
    const uint32_t free = not_waited_for({first, run.count - done});
    const uint32_t count = free == 0 ? 0 : parts_.memory.backing().evict(served, {first, free});
    if (count == 0) {
      parts_.policy.policy().on_refused(first);
      ++done;
      continue;
    }
    account_evicted({first, count});
    if (is_shown) account_hide(count, began_ns);
    done += count;
    evicted += count;
  }
  if (evicted == 0) return;
  parts_.memory.trim_slots();
  parts_.memory.ask_for_slots();
}

// How many chunks of a run, from the first one on, nobody waits for.
uint32_t ChunkMover::not_waited_for(const Run& run) const {
  uint32_t count = 0;
  while (count < run.count && !parts_.waiters.are_at(run.first + count)) ++count;
  return count;
}

void ChunkMover::account_evicted(const Run& run) {
  for (uint32_t i = 0; i < run.count; ++i) {
    probes::evict(run.first + i);
    parts_.recorder.note(EventKind::evict, run.first + i);
  }
  add(parts_.telemetry.evictions, run.count);
}

void ChunkMover::release_if_nowhere(ChunkId chunk) {
  const ServedFile& served = parts_.files.owner(chunk);
  if (parts_.table.state(chunk) != ChunkState::mapped || served.is_placed(chunk)) return;
  if (served.is_kept) return parts_.table.hide(chunk);
  parts_.memory.backing().release(served, chunk);
  if (parts_.waiters.are_at(chunk)) parts_.policy.policy().on_touch(chunk, policy::anywhere);
}

// ---- Fail ----

void ChunkMover::fail(ChunkId chunk, const char* what, int error_number) {
  const ServedFile& served = parts_.files.owner(chunk);
  report_failure(parts_.telemetry, served, served.offset_of(chunk),
                 served.offset_of(chunk) + served.bytes_of(chunk), what, error_number);
  // First of all who waits with the process's memory locked, or nothing could be sealed.
  parts_.memory.backing().fail_chunk(served, chunk);
  seal_from(chunk, 0);
  stop_waiting(chunk);
}

void ChunkMover::seal_from(ChunkId chunk, uint32_t first_page) {
  parts_.files.owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const auto count = static_cast<uint32_t>(region.pages_per_chunk()) - first_page;
    const std::byte* const from =
        region.chunk_address(index) + uint64_t{first_page} * os_page_bytes;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      std::byte* const end = address + length_bytes;
      if (end <= from) return;
      if (address < from) address += from - address;
      parts_.memory.backing().seal(region, address, static_cast<uint64_t>(end - address));
    });
    if (region.drop_sealed_pages(index, first_page, count))
      notes.is_placed = notes.is_waited_for = false;
  });
}

void report_failure(telemetry::Telemetry& telemetry, const ServedFile& served, uint64_t begin_bytes,
                    uint64_t end_bytes, const char* what, int error_number) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%s: %s, bytes %llu to %llu: %s; an engine that touches them gets SIGBUS",
                served.name.c_str(), what, static_cast<unsigned long long>(begin_bytes),
                static_cast<unsigned long long>(end_bytes), std::strerror(error_number));
  report_error(text);
  add(telemetry.read_errors, 1);
}

// ---- Counters ----

void ChunkMover::account_show(uint32_t chunks, uint64_t began_ns) {
  add(parts_.telemetry.shows, 1);
  add(parts_.telemetry.shown_chunks, chunks);
  add(parts_.telemetry.show_ns, telemetry::monotonic_ns() - began_ns);
}

void ChunkMover::account_hide(uint32_t chunks, uint64_t began_ns) {
  add(parts_.telemetry.take_outs, 1);
  add(parts_.telemetry.taken_out_chunks, chunks);
  add(parts_.telemetry.take_out_ns, telemetry::monotonic_ns() - began_ns);
}

}  // namespace weightpager
