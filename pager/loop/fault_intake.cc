#include "pager/loop/fault_intake.h"

#include <sys/mman.h>

#include <array>
#include <utility>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/fault/held_wakes.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using policy::ChunkId;
using telemetry::add;
using telemetry::set;
using window::AddressSpace;
using window::ChunkState;
using window::Region;

namespace {

void wake_page(const AddressSpace& space, uintptr_t address) {
  space.uffd().wake(reinterpret_cast<void*>(round_down(address, os_page_bytes)), os_page_bytes);
}

}  // namespace

FaultIntake::FaultIntake(const LoopParts& parts, ChunkMover& chunks, AddressSpaces& spaces,
                         fault::Doorbell& doorbell)
    : parts_(parts), chunks_(chunks), spaces_(spaces), doorbell_(doorbell) {}

bool FaultIntake::take_ring() { return std::exchange(is_rung_, false); }

void FaultIntake::take_all() {
  take_faults(spaces_.own());
  for (const auto& guest : spaces_.guests()) take_faults(*guest);
  take_touches();
}

// Touches that the memory itself tells of.
void FaultIntake::take_touches() {
  while (const auto touch = parts_.memory.backing().next_touch()) {
    // It failed before the toucher came, who has to be told so.
    if (parts_.table.state(touch->chunk) == ChunkState::failed) {
      parts_.memory.backing().fail_chunk(*touch->file, touch->chunk);
      continue;
    }
    touch->file->for_each_view(touch->chunk, [](Region& region, uint32_t index) {
      region.notes(index).is_waited_for = true;
    });
    // Of its address no more is known than where in the file it is.
    begin_waiting(touch->chunk, {.address = touch->offset_bytes, .thread_id = touch->thread_id});
  }
}

void FaultIntake::take_faults(AddressSpace& space) {
  std::array<fault::Fault, 64> faults;
  for (;;) {
    const size_t count = space.uffd().read_faults(faults);
    const fault::HeldWakes held(space.uffd());
    for (size_t i = 0; i < count; ++i) take_fault(space, faults[i]);
    if (count < faults.size()) return;
  }
}

void FaultIntake::take_fault(AddressSpace& space, const fault::Fault& fault) {
  // 1. Engine threads that ring.
  if (space.is_own() && doorbell_.owns(fault.address)) {
    is_rung_ = true;
    return doorbell_.answer(space.uffd(), fault.address);
  }

  // 2. Not (or no longer) the pager's page: whoever touched it may go on.
  const ServedRegion found = parts_.files.find(space, fault.address);
  if (found.region == nullptr) return wake_page(space, fault.address);
  Region& region = *found.region;
  ServedFile& served = *found.served;
  const uint32_t index = region.chunk_index(fault.address);
  Region::Notes& notes = region.notes(index);

  // 3. The page is there, and the thread wants to write to it.
  if (fault.is_write_to_protected && !parts_.memory.backing().tells_writes()) {
    return wake_page(space, fault.address);
  }
  if (fault.is_write_to_protected && notes.is_placed) {
    return take_write(served, region, fault.address);
  }

  // 4. The chunk is shown: it came after the message was sent, or the view lost a page.
  const bool is_shown = notes.is_placed;
  if (is_shown && parts_.memory.backing().answer_shown(region, index, fault.address)) return;

  // 5. It was given up; or this is one message more of those that a chunk's touchers send.
  const ChunkId chunk = served.chunk_of(region, index);
  if (parts_.table.state(chunk) == ChunkState::failed) return wake_page(space, fault.address);
  if (notes.is_waited_for) return;

  // 6. A thread stands still at the chunk.
  notes.is_waited_for = true;
  served.favoured = &region;
  begin_waiting(chunk, fault);
}

void FaultIntake::begin_waiting(ChunkId chunk, const fault::Fault& fault) {
  const ChunkState state = parts_.table.state(chunk);
  if (parts_.waiters.are_at(chunk)) return;
  // By now this turn may have shown the toucher another chunk: it came here after that.
  const uint64_t now_ns = telemetry::monotonic_ns();
  parts_.policy.set_time(now_ns);
  parts_.waiters.begin(chunk, state, now_ns);
  set(parts_.telemetry.cursor_chunk, chunk);
  parts_.recorder.note_touch(chunk, state, fault.thread_id, now_ns);
  set(parts_.telemetry.last_event_ns, now_ns);
  add(state == ChunkState::absent    ? parts_.telemetry.faults_demand
      : state == ChunkState::reading ? parts_.telemetry.faults_late
                                     : parts_.telemetry.faults_tripwire,
      1);
  probes::fault(chunk, static_cast<uint32_t>(state), fault.address, parts_.waiters.chunks());
  const auto offset_bytes =
      static_cast<uint32_t>(fault.address % parts_.files.owner(chunk).chunk_bytes);
  if (parts_.recorder.is_recording()) {
    const ChunkId oldest = parts_.recorder.add_touch(chunk, offset_bytes, now_ns);
    if (oldest != window::no_chunk) chunks_.hide(oldest, false);
  }
  parts_.policy.policy().on_touch(chunk, offset_bytes);
  if (state == ChunkState::ready || state == ChunkState::mapped) chunks_.show(chunk);
}

// In a writable region the chunk's pages are the engine's own from now on, as they would be with
// mmap. In any other region the thread gets its SIGSEGV, as with mmap.
void FaultIntake::take_write(ServedFile& served, Region& region, uintptr_t touched) {
  const uint32_t index = region.chunk_index(touched);
  Region::Notes& notes = region.notes(index);
  auto* const page = reinterpret_cast<std::byte*>(round_down(touched, os_page_bytes));
  if (!region.extent().is_writable && notes.is_divided) {
    // Only the page: another part may have been taken from the engine altogether.
    kernel::mprotect(page, os_page_bytes, PROT_READ);
    return region.space().uffd().wake(page, os_page_bytes);
  }
  if (!region.extent().is_writable) {
    notes.is_write_refused = true;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      kernel::mprotect(address, length_bytes, PROT_READ);
      region.space().uffd().wake(address, length_bytes);
    });
    return;
  }
  uint64_t written_bytes = 0;
  region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    // A child process inherits what was written, and a core dump has it; what was not is the
    // file's.
    kernel::madvise(address, length_bytes, MADV_DOFORK);
    kernel::madvise(address, length_bytes, MADV_DODUMP);
    region.space().uffd().protect(address, length_bytes, false);
    written_bytes += length_bytes;
  });
  add(parts_.telemetry.written_bytes, written_bytes);
  region.drop_pages(index, 0, static_cast<uint32_t>(region.pages_per_chunk()));
  notes.is_placed = false;
  notes.is_written = true;
  chunks_.release_if_nowhere(served.chunk_of(region, index));
  parts_.policy.note_order_stale();
}

}  // namespace weightpager
