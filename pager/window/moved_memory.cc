#include "pager/window/moved_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/window/live_pages.h"
#include "pager/window/probe.h"

namespace weightpager::window {

using fault::Outcome;

namespace {

// How many experts may lack a page at once.
constexpr uint32_t tripwires_max = 4096;
// Fills slots whose memory only has to be there. Nobody writes to this array, so it takes no
// memory.
std::byte no_bytes[chunk_bytes_max];

}  // namespace

Result<std::unique_ptr<BackingMemory>> MovedMemory::open(const BackingOptions& options,
                                                         const BackingParts& parts) {
  auto pool = make_pool(options);
  if (!pool) return forward_error(std::move(pool));
  return std::unique_ptr<BackingMemory>(new MovedMemory(options, parts, std::move(*pool)));
}

Result<std::unique_ptr<MovedMemory>> MovedMemory::open_empty(const BackingOptions& options,
                                                             const BackingParts& parts) {
  auto pool = make_pool(options);
  if (!pool) return forward_error(std::move(pool));
  std::unique_ptr<MovedMemory> it(new MovedMemory(options, parts, std::move(*pool)));
  // Small slots stay registered (refill_slot).
  if (options.chunk_bytes < huge_page_bytes) it->on_slots_made(0, it->slots_max());
  return it;
}

MovedMemory::MovedMemory(const BackingOptions& options, const BackingParts& parts,
                         std::unique_ptr<SlotPool> pool)
    : SlotMemory(options, parts, std::move(pool)) {
  // Huge pages get no tripwires: a part of a huge page cannot go before the page is split, and
  // moving a whole one is cheap.
  if (chunk_bytes_ < huge_page_bytes) tripwires_.emplace(std::min(tripwires_max, slots_max_));
}

Status MovedMemory::probe(AddressSpace& space, uint64_t chunk_bytes) {
  if (!space.uffd().has_move()) {
    return mapper_too_old("move", "UFFDIO_MOVE, which this kernel lacks (Linux 6.8 has it)");
  }
  auto chunk = ProbedChunk::of_slot("move", space, chunk_bytes);
  if (!chunk) return forward_error(std::move(chunk));
  // The way out has the slot as its destination, and the kernel wants the destination registered,
  // too.
  if (auto done = space.uffd().register_range(chunk->bytes(), chunk_bytes); !done) return done;
  const auto show = [](Region& region, std::byte* bytes) { return move_in(region, {}, bytes); };
  const auto hide = [](Region& region, std::byte* bytes) { return move_out(region, {}, bytes); };
  return chunk->show_and_hide(show, hide);
}

bool MovedMemory::moves_into(const Region& region, uint32_t index) const {
  if (region.extent().is_spilled) return true;
  return !region.extent().is_writable && region.edge(index) == nullptr &&
         !region.notes(index).is_divided;
}

// ---- Slots are registered, because chunks are moved back into them. ----

void MovedMemory::on_slots_made(SlotId first, uint32_t count) {
  auto done = own_.uffd().register_range(pool_->address(first), count * chunk_bytes_);
  if (done) return;
  if (is_refusal(done.error().error_number)) end_refused("ioctl", done.error().error_number);
  report_error(done.error().message);
  std::abort();
}

// A small slot stays registered and gets memory by a copy, into small pages. A slot that is not
// registered is a mapping of its own for the kernel, and there may be more small slots than the
// kernel allows mappings (vm.max_map_count).
bool MovedMemory::refill_slot(SlotId slot) {
  if (chunk_bytes_ < huge_page_bytes) {
    return own_.uffd().copy(pool_->address(slot), no_bytes, chunk_bytes_) == Outcome::done;
  }
  pool_->refill(slot);
  on_slots_made(slot, 1);
  return true;
}

// The kernel may ask to try again while the process's mappings change.
void MovedMemory::fill_slot(SlotId slot) {
  if (chunk_bytes_ == huge_page_bytes) {
    refill_slot(slot);
    return;
  }
  Outcome outcome = Outcome::busy;
  while (outcome == Outcome::busy) {
    outcome = own_.uffd().copy(pool_->address(slot), no_bytes, chunk_bytes_);
  }
  if (outcome == Outcome::done) return;
  report_error("no memory for a chunk of the window: errno " + std::to_string(errno));
  std::abort();
}

void MovedMemory::empty_slot(SlotId slot) {
  if (chunk_bytes_ == huge_page_bytes) {
    own_.uffd().unregister_range(pool_->address(slot), chunk_bytes_);
  }
  SlotMemory::empty_slot(slot);
}

// ---- Show ----

// The one region that shows the chunk, if the slot's own memory is moved there; else nullptr.
Region* MovedMemory::moves_to(const ShownFile& file, ChunkId chunk) const {
  Region* only = nullptr;
  bool is_moved = true;
  file.for_each_view(chunk, [&](Region& region, uint32_t index) {
    is_moved = is_moved && only == nullptr && moves_into(region, index);
    only = &region;
  });
  return is_moved ? only : nullptr;
}

Outcome MovedMemory::show(const ShownFile& file, ChunkId chunk, bool is_waited_for, bool is_retry) {
  if (tripped_in(file, chunk) != nullptr) {
    return take_tripwire_back(file, chunk) ? Outcome::done : Outcome::busy;
  }
  return SlotMemory::show(file, chunk, is_waited_for, is_retry);
}

bool MovedMemory::show_together(const ShownFile& file, const Run& run) {
  Region* const home = moves_to(file, run.first);
  if (home == nullptr) return false;
  const uint32_t index = file.index_in(*home, run.first);
  for (uint32_t i = 0; i < run.count; ++i) {
    if (moves_to(file, run.first + i) != home || home->notes(index + i).is_placed) return false;
  }
  if (move_in(*home, {index, run.count}, bytes_of(file, run.first)) != Outcome::done) return false;
  for (uint32_t i = 0; i < run.count; ++i) {
    home->notes(index + i).is_placed = true;
    table_.map(run.first + i, true);
  }
  return true;
}

bool MovedMemory::answer_shown(Region& region, uint32_t index, uintptr_t address) {
  return !Tripwires::is_tripped_by(region, index, address) &&
         SlotMemory::answer_shown(region, index, address);
}

// ---- Hide and evict ----

bool MovedMemory::hide(const ShownFile& file, ChunkId chunk, bool is_used_whole) {
  Region* const home = is_used_whole && tripwires_ ? moves_to(file, chunk) : nullptr;
  const uint32_t index = home == nullptr ? 0 : file.index_in(*home, chunk);
  if (home == nullptr || !home->notes(index).is_placed || !tripwires_->set(*home, index)) {
    return SlotMemory::hide(file, chunk, is_used_whole);
  }
  table_.hide(chunk);
  return true;
}

void MovedMemory::flush_hidden() {
  if (tripwires_) tripwires_->hand_over();
}

// The region that lacks a page of the chunk, or nullptr.
Region* MovedMemory::tripped_in(const ShownFile& file, ChunkId chunk) const {
  Region* found = nullptr;
  if (!tripwires_) return found;
  file.for_each_view(chunk, [&](Region& region, uint32_t index) {
    if (Tripwires::is_set(region, index)) found = &region;
  });
  return found;
}

// ready → mapped, if the chunk lacks only the page of a tripwire. Returns false if that page cannot
// come back now.
bool MovedMemory::take_tripwire_back(const ShownFile& file, ChunkId chunk) {
  Region* const region = tripped_in(file, chunk);
  if (region == nullptr) return true;
  const uint32_t index = file.index_in(*region, chunk);
  if (tripwires_->take_back(*region, index) != Outcome::done) return false;
  table_.map(chunk, true);
  return true;
}

void MovedMemory::leave_region(const ShownFile& file, Region& region, uint32_t index) {
  if (!region.notes(index).is_placed || !moves_into(region, index)) return;
  const ChunkId chunk = file.chunk_of(region, index);
  const bool is_whole = take_tripwire_back(file, chunk);
  WP_ASSERT(is_whole);
  if (!take_out(file, chunk)) {
    // Somebody pins the pages: they go with the mapping, and the slot gets other memory.
    std::byte* const address = region.chunk_address(index);
    const Outcome refilled = own_.uffd().copy(bytes_of(file, chunk), address, chunk_bytes_);
    WP_ASSERT(refilled == Outcome::done);
    kernel::madvise(address, chunk_bytes_, MADV_DONTNEED);
    region.notes(index).is_placed = false;
  }
  table_.hide(chunk);
}

uint32_t MovedMemory::evict(const ShownFile& file, const Run& run) {
  for (uint32_t i = 0; i < run.count; ++i) take_tripwire_back(file, run.first + i);
  const uint32_t count = evict_together(file, run);
  // The kernel may hold a page of one of the chunks: then each chunk goes, or stays, by itself.
  return count > 0 ? count : SlotMemory::evict(file, run);
}

// Evicts chunks of one region whose slots can be brought side by side, in one step. Returns how
// many; 0 if none went.
uint32_t MovedMemory::evict_together(const ShownFile& file, const Run& run) {
  Region* const home = moves_to(file, run.first);
  if (home == nullptr) return 0;
  const uint32_t index = file.index_in(*home, run.first);
  const uint32_t count = count_together(table_, run, [&](ChunkId chunk) {
    return table_.state(chunk) == ChunkState::mapped && moves_to(file, chunk) == home;
  });
  if (count == 1) return 0;
  if (move_out(*home, {index, count}, bytes_of(file, run.first)) != Outcome::done) return 0;
  for (uint32_t i = 0; i < count; ++i) {
    home->notes(index + i).is_placed = false;
    table_.release(run.first + i);
  }
  return count;
}

}  // namespace weightpager::window
