// What the pager learns of the engine: who stands still at which chunk, and what was touched.
//
// Faults come from the userfaultfd of an address space, touches of the kernel module's memory from
// its device. A ready chunk is shown at once; of any other the policy learns, and its toucher
// waits. Of chunks that are there nobody sees a touch, unless they (or a page of theirs) were taken
// out of sight.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/pager.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using fault::Outcome;
using policy::ChunkId;
using telemetry::add;
using telemetry::EventKind;
using telemetry::set;
using window::AddressSpace;
using window::ChunkState;
using window::Region;
using window::Tripwires;

Status Pager::watch_faults(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return fail(std::string("watching for faults: ") + std::strerror(errno), "", errno);
}

void Pager::take_all_faults() {
  take_faults(*own_);
  for (const auto& guest : guests_) take_faults(*guest);
  if (module_ != nullptr) take_touches();
}

// Of the kernel module's memory, which knows chunks and not who touches them where.
void Pager::take_touches() {
  while (const auto touch = module_->next_touch()) {
    const auto served = std::find_if(files_.begin(), files_.end(), [&](const auto& it) {
      return window::ModuleWindow::number_of(*it->memory) == touch->memory;
    });
    // Gone with its last region, and whoever waits with it. (Another may have its number by now.)
    const auto at = static_cast<uint32_t>(touch->offset_bytes / chunk_bytes_);
    if (served == files_.end() || at >= (*served)->chunks) continue;
    const ChunkId chunk = (*served)->first_chunk + at;
    // It failed before the toucher came, who has to be told so.
    if (table_.state(chunk) == ChunkState::failed) {
      (*served)->memory->fail_chunk((*served)->offset_of(chunk));
      continue;
    }
    (*served)->for_each_view(
        chunk, [](Region& region, uint32_t index) { region.notes(index).is_waited_for = true; });
    // Of its address no more is known than where in the file it is.
    take_touch(chunk, {.address = touch->offset_bytes, .thread_id = touch->thread_id});
  }
}

void Pager::take_faults(AddressSpace& space) {
  std::array<fault::Fault, 64> faults;
  for (;;) {
    const size_t count = space.uffd().read_faults(faults);
    for (size_t i = 0; i < count; ++i) take_fault(space, faults[i]);
    if (count < faults.size()) return;
  }
}

void Pager::take_fault(AddressSpace& space, const fault::Fault& fault) {
  if (space.is_own() && doorbell_.owns(fault.address)) {
    is_rung_ = true;
    return doorbell_.answer(space.uffd(), fault.address);
  }
  const Place place = find(space, fault.address);
  // Not (or no longer) the pager's page: whoever touched it may go on.
  if (place.region == nullptr) return wake_page(space, fault.address);
  Region& region = *place.region;
  ServedFile& served = *place.served;
  const uint32_t index = region.chunk_index(fault.address);
  Region::Notes& notes = region.notes(index);
  if (fault.is_write_to_protected && notes.is_placed)
    return take_write(served, region, fault.address);

  const ChunkId chunk = served.chunk_of(region, index);
  const ChunkState state = table_.state(chunk);
  // A view can lose pages of a chunk that it shows: by MADV_DONTNEED, or by the first write, which
  // splits a huge page's entry.
  if (notes.is_placed && shares_memory()) return show_again(region, index);
  // An old message: the chunk came (or was given up) after it was sent.
  const bool is_there = notes.is_placed && !Tripwires::is_tripped_by(region, index, fault.address);
  if (is_there || state == ChunkState::failed) return wake_page(space, fault.address);
  // Every thread that touches the chunk sends a message, and one more after each signal.
  if (notes.is_waited_for) return;
  notes.is_waited_for = true;
  served.favoured = &region;
  take_touch(chunk, fault);
}

// Somebody stands still at a chunk.
void Pager::take_touch(ChunkId chunk, const fault::Fault& fault) {
  const ChunkState state = table_.state(chunk);
  if (waiting_[chunk].is_waited_for) return;
  // By now this turn may have shown the toucher another chunk: it came here after that.
  now_ns_ = telemetry::monotonic_ns();
  waiting_[chunk].is_waited_for = true;
  waiting_[chunk].touched_in = state;
  waiting_[chunk].touched_ns = now_ns_;
  if (waiting_chunks_++ == 0) stalled_since_ns_ = stall_shared_out_ns_ = now_ns_;
  set(telemetry_.cursor_chunk, chunk);
  if (events_ != nullptr) {
    events_->add({.time_ns = now_ns_,
                  .chunk = chunk,
                  .thread = fault.thread_id,
                  .kind = EventKind::touch,
                  .state = static_cast<uint8_t>(state)});
  }
  set(telemetry_.last_event_ns, now_ns_);
  add(state == ChunkState::absent    ? telemetry_.faults_demand
      : state == ChunkState::reading ? telemetry_.faults_late
                                     : telemetry_.faults_tripwire,
      1);
  probes::fault(chunk, static_cast<uint32_t>(state), fault.address, waiting_chunks_);
  const auto offset_bytes = static_cast<uint32_t>(fault.address % chunk_bytes_);
  if (record_ != nullptr) record_touch(chunk, offset_bytes);
  policy_->on_touch(chunk, offset_bytes);
  if (state == ChunkState::ready || (state == ChunkState::mapped && shares_memory())) {
    map(chunk);
  } else if (state == ChunkState::mapped) {
    // It lies in another region of the same file, where somebody may just be about to use it.
    held_.push_back(chunk);
  }
}

// The engine writes to a chunk. In a writable region its pages are the engine's own from now on, as
// they would be with mmap. In any other region the thread gets its SIGSEGV, as with mmap.
void Pager::take_write(ServedFile& served, Region& region, uintptr_t touched) {
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
  add(telemetry_.written_bytes, written_bytes);
  region.drop_pages(index, 0, static_cast<uint32_t>(region.pages_per_chunk()));
  notes.is_placed = false;
  notes.is_written = true;
  const ChunkId chunk = served.chunk_of(region, index);
  release_if_nowhere(chunk);
  is_order_stale_ = true;
}

// The chunk that was touched longest ago is taken out of the engine's sight, to show its next
// touch.
void Pager::record_touch(ChunkId chunk, uint32_t offset_bytes) {
  record_->add_touch(chunk, offset_bytes, now_ns_);
  const ChunkId oldest = std::exchange(recorded_[recorded_next_], chunk);
  recorded_next_ = (recorded_next_ + 1) % recorded_.size();
  if (oldest != window::no_chunk && oldest != chunk) take_out_of_sight(oldest, false);
}

// mapped → ready, where that is possible: the next touch will be noticed. Of a chunk that is used
// whole one page will do.
bool Pager::take_out_of_sight(ChunkId chunk, bool is_used_whole) {
  const uint64_t began_ns = telemetry::monotonic_ns();
  const bool can_be_held = table_.state(chunk) == ChunkState::mapped &&
                           table_.slot(chunk) != window::no_slot && !waiting_[chunk].is_waited_for;
  if (!can_be_held) return false;
  const bool is_tripped = is_used_whole && set_tripwire(chunk);
  if (!is_tripped && !take_out(chunk)) return false;
  table_.hold(chunk);
  account_take_out(1, began_ns);
  return true;
}

bool Pager::set_tripwire(ChunkId chunk) {
  Region* const home = tripwires_ ? moves_to(chunk) : nullptr;
  if (home == nullptr) return false;
  const uint32_t index = owner(chunk).index_in(*home, chunk);
  return home->notes(index).is_placed && tripwires_->set(*home, index);
}

// The region that lacks a page of the chunk, or nullptr.
Region* Pager::tripped_in(ChunkId chunk) const {
  Region* found = nullptr;
  if (!tripwires_) return found;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (Tripwires::is_set(region, index)) found = &region;
  });
  return found;
}

// ready → mapped, if the chunk is there but for a page. False: that page cannot come back now.
bool Pager::take_tripwire_back(ChunkId chunk) {
  Region* const region = tripped_in(chunk);
  if (region == nullptr) return true;
  const uint32_t index = owner(chunk).index_in(*region, chunk);
  if (tripwires_->take_back(*region, index) != Outcome::done) return false;
  table_.map(chunk, true);
  return true;
}

void Pager::retry_held_chunks() {
  const size_t count = held_.size();
  for (size_t i = 0; i < count; ++i) {
    const ChunkId chunk = held_.front();
    held_.erase(held_.begin());
    if (!waiting_[chunk].is_waited_for) continue;
    const ChunkState state = table_.state(chunk);
    if (state == ChunkState::mapped && !shares_memory()) {
      move_to_waiter(chunk);
    } else if (state == ChunkState::mapped || state == ChunkState::ready) {
      map(chunk);
    }
  }
}

// Regions by space and address; those of an engine with many small mappings are a thousand. One may
// begin in a hole that was unmapped in another, so the nearest need not be the right one.
Pager::Place Pager::find(const AddressSpace& space, uintptr_t address) const {
  auto it = std::upper_bound(regions_.begin(), regions_.end(), std::pair(&space, address),
                             [](const auto& at, const Place& place) { return at < place.key(); });
  while (it != regions_.begin() && &(--it)->region->space() == &space) {
    if (it->region->contains(address) && it->region->is_live_at(address)) return *it;
  }
  return {};
}

void Pager::wake_page(const AddressSpace& space, uintptr_t address) {
  space.uffd().wake(reinterpret_cast<void*>(round_down(address, os_page_bytes)), os_page_bytes);
}

}  // namespace weightpager
