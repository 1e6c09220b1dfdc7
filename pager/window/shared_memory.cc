#include "pager/window/shared_memory.h"

#include <sys/mman.h>

#include <utility>

#include "pager/window/live_pages.h"
#include "pager/window/probe.h"

namespace weightpager::window {

using fault::Outcome;

namespace {

const MemoryFile& memory_of(const ShownFile& file) {
  return static_cast<const MemoryFile&>(*file.backing);
}

// MADV_COLLAPSE would copy small pages into a huge one, which costs more than showing them as they
// are.
Outcome show_in(const Region& region, uint32_t index, bool has_huge_pages) {
  return has_huge_pages ? show_huge_page(region, index) : show_live_pages(region, index);
}

Outcome place(Region& region, uint32_t index, bool has_huge_pages) {
  Region::Notes& notes = region.notes(index);
  if (notes.is_placed) return Outcome::done;
  const Outcome outcome = show_in(region, index, has_huge_pages);
  notes.is_placed = outcome == Outcome::done;
  if (outcome == Outcome::done || region.space().is_own()) return outcome;
  // A guest that cannot be served is cut off, and the others go on.
  region.space().line().hang_up();
  return Outcome::done;
}

// Whether the region has each chunk of the run as a whole, shows none of them yet, and nobody waits
// for one elsewhere.
bool shows_alone(const ShownFile& file, const Run& run, const Region& region) {
  bool is_alone = true;
  for (uint32_t i = 0; i < run.count && is_alone; ++i) {
    bool is_there = false;
    file.for_each_view(run.first + i, [&](const Region& view, uint32_t index) {
      const Region::Notes& notes = view.notes(index);
      if (&view != &region) {
        is_alone = is_alone && !notes.is_waited_for;
      } else {
        is_there = view.edge(index) == nullptr && !notes.is_placed;
      }
    });
    is_alone = is_alone && is_there;
  }
  return is_alone;
}

}  // namespace

Result<std::unique_ptr<BackingMemory>> SharedMemory::open(const BackingOptions& options,
                                                          const BackingParts& parts) {
  return std::unique_ptr<BackingMemory>(new SharedMemory(options, parts));
}

Status SharedMemory::probe(AddressSpace& space, uint64_t chunk_bytes) {
  if (!space.uffd().has_shared_memory()) {
    return mapper_too_old("collapse",
                          "userfaultfd for shared memory, which this kernel lacks "
                          "(Linux 5.14 has it)");
  }
  const auto memory = MemoryFile::create(chunk_bytes, chunk_bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  const MemoryFile& file = **memory;
  auto chunk =
      ProbedChunk::of_view("collapse", space, chunk_bytes, file.view_fd(), MAP_PRIVATE, file.at(0));
  if (!chunk) return forward_error(std::move(chunk));
  auto ready = space.uffd().register_view(chunk->region().address(), chunk_bytes);
  if (!ready) return ready;
  const auto show = [&](Region& region, std::byte*) {
    return show_in(region, 0, file.has_huge_pages());
  };
  const auto hide = [](Region& region, std::byte*) {
    drop_live_pages(region, 0);
    return Outcome::done;
  };
  return chunk->show_and_hide(show, hide);
}

Status SharedMemory::add_file(ShownFile& file) {
  auto memory = MemoryFile::create(file.chunks * chunk_bytes_, chunk_bytes_);
  if (!memory) return forward_error(std::move(memory));
  file.backing = std::move(*memory);
  return {};
}

Result<std::unique_ptr<Region>> SharedMemory::reserve(const ShownFile& file, const Extent& extent) {
  auto region = Region::reserve(extent, chunk_bytes_, own_, file.backing->view_fd(), MAP_PRIVATE);
  if (!region || (*region)->live_bytes() == 0) return region;
  auto done = own_.uffd().register_view((*region)->address(), (*region)->live_bytes());
  if (!done) return forward_error(std::move(done));
  return region;
}

std::byte* SharedMemory::bytes_of(const ShownFile& file, ChunkId chunk) const {
  return memory_of(file).at(file.offset_of(chunk));
}

void SharedMemory::finish_read(const ShownFile& file, ChunkId chunk) {
  memory_of(file).finish_chunk(file.offset_of(chunk));
}

// Shows the chunk wherever a thread waits for it; if none does, in the region that was touched
// last.
Outcome SharedMemory::show(const ShownFile& file, ChunkId chunk, bool is_waited_for, bool) {
  Outcome outcome = Outcome::done;
  file.for_each_view(chunk, [&](Region& region, uint32_t index) {
    const bool is_meant =
        is_waited_for ? region.notes(index).is_waited_for : &region == file.favoured;
    if (outcome != Outcome::done || !is_meant) return;
    outcome = place(region, index, memory_of(file).has_huge_pages());
  });
  const bool is_new = table_.state(chunk) == ChunkState::ready;
  if (outcome == Outcome::done && is_new) table_.map(chunk, true);
  return outcome;
}

// Chunks lie side by side in a view as they do in memory, so one call shows them all where only the
// region that was touched last is to show them. (A call that fails may have shown pages. They are
// the right ones, and stay.)
bool SharedMemory::show_together(const ShownFile& file, const Run& run) {
  Region* const region = file.favoured;
  if (region == nullptr || !shows_alone(file, run, *region)) return false;
  const uint32_t index = file.index_in(*region, run.first);
  const Outcome outcome =
      region->space().uffd().show(region->chunk_address(index), run.count * region->chunk_bytes());
  if (outcome != Outcome::done) return false;
  for (uint32_t i = 0; i < run.count; ++i) {
    region->notes(index + i).is_placed = true;
    table_.map(run.first + i, true);
  }
  return true;
}

// Hides only in this process, and loses no page that the engine wrote. (Eviction does not hide: it
// takes the memory itself away.)
bool SharedMemory::hide(const ShownFile& file, ChunkId chunk, bool) {
  bool is_out = true;
  file.for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    if (!is_out || !notes.is_placed) return;
    is_out = region.space().is_own();
    if (is_out && region.extent().is_writable) {
      is_out = hides_writable_ && take_out_unwritten(region, index, page_map());
    } else if (is_out) {
      drop_live_pages(region, index);
    }
    notes.is_placed = !is_out;
  });
  if (is_out) table_.hide(chunk);
  return is_out;
}

void SharedMemory::give_back(const ShownFile& file, ChunkId chunk) {
  memory_of(file).give_back(file.offset_of(chunk), chunk_bytes_);
  note_gone(file, chunk);
}

// The kernel takes them out of every view in one step.
uint32_t SharedMemory::evict(const ShownFile& file, const Run& run) {
  memory_of(file).give_back(file.offset_of(run.first), run.count * chunk_bytes_);
  for (uint32_t i = 0; i < run.count; ++i) {
    note_gone(file, run.first + i);
    table_.release(run.first + i);
  }
  return run.count;
}

uint64_t SharedMemory::engine_bytes(const ProcessMemory& all, uint32_t) const {
  return all.anonymous_bytes + all.file_bytes;
}

}  // namespace weightpager::window
