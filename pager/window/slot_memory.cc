#include "pager/window/slot_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/window/live_pages.h"
#include "pager/window/probe.h"

namespace weightpager::window {

using fault::Outcome;

namespace {

// `bytes_ahead` is kept ready beyond what is in use, while the window fills. At most `refill_bytes`
// of emptied slots are filled again between two looks at faults.
constexpr uint64_t bytes_ahead = 64 * MiB;
constexpr uint64_t refill_bytes = 2 * MiB;
// Where regions meet within a page, both show it. So one in `border_parts` of a chunk's pages may
// be shown twice.
constexpr uint64_t border_parts = 16;

void ring(void* doorbell) { static_cast<fault::Doorbell*>(doorbell)->ring(); }

}  // namespace

Result<std::unique_ptr<SlotPool>> SlotMemory::make_pool(const BackingOptions& options) {
  const SlotPoolOptions pool_options{options.slots, options.before_memory};
  auto pool = SlotPool::create(options.slots_max, options.chunk_bytes, pool_options);
  if (pool || options.slots_max == options.slots) return pool;
  return SlotPool::create(options.slots, options.chunk_bytes, pool_options);
}

SlotMemory::SlotMemory(const BackingOptions& options, const BackingParts& parts,
                       std::unique_ptr<SlotPool> pool)
    : BackingMemory(options, parts), pool_(std::move(pool)) {
  slots_max_ = pool_->slots();
}

Status SlotMemory::check_writable(const std::string& file_name) const {
  if (own_.uffd().has_write_protection()) return {};
  return fail(file_name + ": mapped writable, and it cannot be told here what is written",
              "Linux 5.7 and later can, on x86-64");
}

Result<std::unique_ptr<Region>> SlotMemory::reserve(const ShownFile&, const Extent& extent) {
  auto region = Region::reserve(extent, chunk_bytes_, own_);
  if (!region || (*region)->live_bytes() == 0) return region;
  auto done =
      own_.uffd().register_range((*region)->address(), (*region)->live_bytes(), !extent.is_spilled);
  if (!done) return forward_error(std::move(done));
  return region;
}

// ---- Get ----

uint32_t SlotMemory::supply_slots(uint32_t window_chunks, bool is_in_use) {
  const uint32_t populated = pool_->populated();
  if (populated > slots_added_) {
    on_slots_made(slots_added_, populated - slots_added_);
    for (; slots_added_ < populated; ++slots_added_) table_.add_slot(slots_added_);
    trim_slots(window_chunks);
  }
  return is_in_use ? ask_for_slots(window_chunks) : 0;
}

// The window's memory is what chunks hold plus free slots. While less than the window is in use,
// a few free slots are kept ready: emptied ones are filled again, others are made by the pool.
uint32_t SlotMemory::ask_for_slots(uint32_t window_chunks) {
  const uint32_t in_use = table_.resident() + table_.free_slots();
  const auto slots_ahead = static_cast<uint32_t>(bytes_ahead / chunk_bytes_);
  const bool has_enough = table_.free_slots() >= slots_ahead || in_use >= window_chunks;
  if (!has_enough && !emptied_slots_.empty()) {
    refill_slots(window_chunks - in_use);
  } else if (!has_enough) {
    pool_->want(slots_added_ + std::min(slots_ahead, window_chunks - in_use), ring, &doorbell_);
  }
  table_.expect_slots(pool_->wanted() > slots_added_);
  return has_enough ? in_use : 0;
}

bool SlotMemory::get_all_memory(uint32_t window_chunks) {
  pool_->want(window_chunks, ring, &doorbell_);
  return pool_->populated() >= window_chunks;
}

void SlotMemory::refill_slots(uint32_t slots_max) {
  slots_max = std::min(slots_max, static_cast<uint32_t>(refill_bytes / chunk_bytes_));
  for (; slots_max > 0 && !emptied_slots_.empty(); --slots_max) {
    const SlotId slot = emptied_slots_.back();
    // Out of memory: there may be some at the next look.
    if (!refill_slot(slot)) return;
    emptied_slots_.pop_back();
    table_.add_slot(slot);
  }
}

bool SlotMemory::refill_slot(SlotId slot) {
  pool_->refill(slot);
  return true;
}

void SlotMemory::empty_slot(SlotId slot) { pool_->empty(slot); }

std::byte* SlotMemory::bytes_of(const ShownFile&, ChunkId chunk) const {
  return pool_->address(table_.slot(chunk));
}

// ---- Show ----

Outcome SlotMemory::show(const ShownFile& file, ChunkId chunk, bool, bool is_retry) {
  if (table_.state(chunk) == ChunkState::mapped) {
    // The chunk lies in another region of the same file, where a thread may just be about to use
    // it.
    if (!is_retry) return Outcome::busy;
    const Outcome outcome = show_elsewhere(file, chunk);
    if (outcome != Outcome::done || table_.state(chunk) == ChunkState::mapped) return outcome;
  }
  bool keeps_slot = false;
  const Outcome outcome = place_everywhere(file, chunk, keeps_slot);
  if (outcome == Outcome::done) table_.map(chunk, keeps_slot);
  return outcome;
}

// Shows the chunk in one region, and wakes the threads that wait for it there.
Outcome SlotMemory::place(Region& region, uint32_t index, std::byte* bytes) const {
  Region::Notes& notes = region.notes(index);
  if (notes.is_placed) return Outcome::done;
  const Outcome outcome = moves_into(region, index) ? move_in(region, {index}, bytes)
                                                    : copy_live_pages(region, index, bytes);
  notes.is_placed = outcome == Outcome::done;
  return outcome;
}

// Shows the chunk in edges, and as a whole in one region, but in all no more pages than the window
// counts: first where a thread waits, then wherever there is room. Regions side by side both show
// the page of their border. Where regions show the same part of the file, some of them go without,
// and get the chunk when it is touched there.
Outcome SlotMemory::place_everywhere(const ShownFile& file, ChunkId chunk, bool& keeps_slot) const {
  Region* const home = file.home_of(chunk);
  std::byte* const bytes = bytes_of(file, chunk);
  Outcome outcome = Outcome::done;
  uint64_t pages_left = chunk_bytes_ / os_page_bytes;
  pages_left += pages_left / border_parts + 1;
  bool is_any_shown = false;
  bool moves_home = false;
  for (const bool is_waited_for : {true, false}) {
    file.for_each_view(chunk, [&](Region& region, uint32_t index) {
      const PageSet* const edge = region.edge(index);
      const bool is_meant = region.notes(index).is_waited_for == is_waited_for &&
                            (edge != nullptr || &region == home);
      const uint64_t pages = edge == nullptr ? region.pages_per_chunk() : edge->count();
      if (outcome != Outcome::done || !is_meant || (is_any_shown && pages > pages_left)) return;
      is_any_shown = true;
      pages_left -= std::min(pages_left, pages);
      // The memory itself is moved last, when all copies of it are made.
      moves_home = moves_home || moves_into(region, index);
      if (!moves_into(region, index)) outcome = place(region, index, bytes);
    });
  }
  if (!moves_home || outcome != Outcome::done) return outcome;
  outcome = place(*home, file.index_in(*home, chunk), bytes);
  keeps_slot = true;
  return outcome;
}

// A thread waits for a mapped chunk in another region than the one that the chunk lies in. A chunk
// that was copied into its region is copied on from there, and stays mapped. Any other chunk is
// taken out, and is ready if it has a slot. Answers `busy` if that cannot be done now, or if a
// chunk that lies only in edges has to be read anew.
Outcome SlotMemory::show_elsewhere(const ShownFile& file, ChunkId chunk) {
  Region* const target = file.home_of(chunk);
  Region* const source = copied_whole_in(file, chunk);
  const uint32_t index = target == nullptr ? 0 : file.index_in(*target, chunk);
  // A chunk needs a slot to get into a region that chunks are moved to.
  const bool can_copy =
      source != nullptr && target != nullptr && target != source && !moves_into(*target, index);
  if (can_copy && table_.slot(chunk) == no_slot) {
    const uint32_t source_index = file.index_in(*source, chunk);
    const Outcome outcome = copy_live_pages(*target, index, source->chunk_address(source_index));
    if (outcome != Outcome::done) return Outcome::busy;
    target->notes(index).is_placed = true;
    drop_live_pages(*source, source_index);
    source->notes(source_index).is_placed = false;
    return Outcome::done;
  }
  if (!take_out(file, chunk)) return Outcome::busy;
  if (table_.slot(chunk) != no_slot) {
    table_.hide(chunk);
    return Outcome::done;
  }
  table_.release(chunk);
  return Outcome::busy;
}

// The region that has a copy of the whole chunk; nullptr if none has. A divided chunk does not
// count: copying does not work from parts that the engine may not access.
Region* SlotMemory::copied_whole_in(const ShownFile& file, ChunkId chunk) const {
  Region* found = nullptr;
  file.for_each_view(chunk, [&](Region& region, uint32_t index) {
    const Region::Notes& notes = region.notes(index);
    const bool is_whole = notes.is_placed && region.edge(index) == nullptr && !notes.is_divided;
    if (is_whole && !moves_into(region, index)) found = &region;
  });
  return found;
}

// The message is old: the chunk came after the message was sent.
bool SlotMemory::answer_shown(Region& region, uint32_t, uintptr_t address) {
  auto* const page = reinterpret_cast<void*>(round_down(address, os_page_bytes));
  region.space().uffd().wake(page, os_page_bytes);
  return true;
}

// ---- Hide and evict ----

bool SlotMemory::hide(const ShownFile& file, ChunkId chunk, bool) {
  if (!take_out(file, chunk)) return false;
  table_.hide(chunk);
  return true;
}

bool SlotMemory::take_out(const ShownFile& file, ChunkId chunk) {
  std::byte* const bytes = table_.slot(chunk) == no_slot ? nullptr : bytes_of(file, chunk);
  bool is_out = true;
  // Chunks that were moved go first, because the kernel may refuse to move them back.
  for (const bool is_moved : {true, false}) {
    file.for_each_view(chunk, [&](Region& region, uint32_t index) {
      Region::Notes& notes = region.notes(index);
      if (!is_out || !notes.is_placed || moves_into(region, index) != is_moved) return;
      if (is_moved) {
        is_out = move_out(region, {index}, bytes) == Outcome::done;
      } else {
        drop_live_pages(region, index);
      }
      notes.is_placed = !is_out;
    });
  }
  return is_out;
}

uint32_t SlotMemory::evict(const ShownFile& file, const Run& run) {
  if (!take_out(file, run.first)) return 0;
  release(file, run.first);
  return 1;
}

// ---- Seal, and what the engine wrote ----

void SlotMemory::seal(const Region& region, std::byte* address, uint64_t length_bytes) {
  Region::seal(address, length_bytes);
  region.space().uffd().wake(address, length_bytes);
}

// As MADV_DONTNEED does on a private mapping, this frees the engine's own pages. The chunk's other
// pages go, too, so that its pages are all there or all absent.
bool SlotMemory::discard_written(Region& region, uint32_t index, uint32_t first_page,
                                 uint32_t count) {
  Region::Notes& notes = region.notes(index);
  if (!notes.is_written) return false;
  if (notes.is_placed) {
    drop_live_pages(region, index);
    notes.is_placed = false;
  }
  region.restore_written(index, first_page, count, [](std::byte* address, uint64_t length_bytes) {
    kernel::madvise(address, length_bytes, MADV_DONTNEED);
  });
  notes.is_written = region.written_pages(index).any();
  return true;
}

void SlotMemory::for_each_written_run(const Region& region, uint32_t index, const Act& act) {
  if (region.notes(index).is_written) {
    region.for_each_run(index, region.written_pages(index), act);
  }
}

uint64_t SlotMemory::engine_bytes(const ProcessMemory& all, uint32_t window_chunks) const {
  const uint64_t process_bytes = all.anonymous_bytes + all.file_bytes;
  const uint32_t in_use = std::min(table_.resident() + table_.free_slots(), window_chunks);
  const uint64_t window_bytes = in_use * chunk_bytes_;
  return process_bytes > window_bytes ? process_bytes - window_bytes : 0;
}

// ---- Copied memory ----

Result<std::unique_ptr<BackingMemory>> CopiedMemory::open(const BackingOptions& options,
                                                          const BackingParts& parts) {
  auto pool = make_pool(options);
  if (!pool) return forward_error(std::move(pool));
  return std::unique_ptr<BackingMemory>(new CopiedMemory(options, parts, std::move(*pool)));
}

Status CopiedMemory::probe(AddressSpace& space, uint64_t chunk_bytes) {
  auto chunk = ProbedChunk::of_slot("copy", space, chunk_bytes);
  if (!chunk) return forward_error(std::move(chunk));
  const auto show = [](Region& region, std::byte* bytes) {
    return copy_live_pages(region, 0, bytes);
  };
  const auto hide = [](Region& region, std::byte*) {
    drop_live_pages(region, 0);
    return Outcome::done;
  };
  return chunk->show_and_hide(show, hide);
}

}  // namespace weightpager::window
